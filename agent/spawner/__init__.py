"""The spawner: a small process of its own that starts commands and leaves none behind. Standard library only.

Claw starts it as `python -I -S`, without site-packages; agent/processes.py talks to it and is the only one who does.
"""

"""Where sessions live on disk: one SQLite file each, a lock, a listing. Knows bytes and rows, not what they mean."""

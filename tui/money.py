"""Amounts of US dollars in a few characters."""


def money(cost_usd: float | None) -> str:
    """As much of a dollar as can be told apart; None is a price that nobody knows."""
    if cost_usd is None:
        return "price unknown"
    if 0 < cost_usd < 0.001:
        return "under $0.001"
    return f"${cost_usd:.3f}" if cost_usd < 0.995 else f"${cost_usd:,.2f}"

"""The rules of the wallet as pure functions over frozen values: lots, settlement, standing, the chart."""

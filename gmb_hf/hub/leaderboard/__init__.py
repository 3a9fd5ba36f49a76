"""The leaderboard: submissions, the check that recomputes them, and the site that shows them."""

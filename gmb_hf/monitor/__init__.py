"""A live run under watch: CLEAR, ALARM or ABSTAIN at every checkpoint."""

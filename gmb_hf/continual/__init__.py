"""What a model keeps of the tasks it learned before, from tables of losses and accuracies.

`matrix` is the table: every task after every phase, for each variant and seed. `retention` sums it
up in the field's standard terms, `comparison` tests variants against each other, and
`generalisation` compares training logs at equal training loss.
"""

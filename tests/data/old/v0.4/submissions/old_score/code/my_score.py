def my_score(gini):
    return 2 * gini

"""What papers report of their signals, each in one sentence; a trial puts beside it what it found.

One line a signal, in the order of the survey (docs/signals.md): how the paper tested it is part of
the sentence where the paper says so.
"""

from __future__ import annotations

from typing import NamedTuple


class Claim(NamedTuple):
    """A signal, its paper, what the paper reports, and the indicators that measure it."""

    signal: str
    paper: str
    reports: str
    indicators: tuple[str, ...]


def _claim(signal: str, paper: str, reports: str, indicators: str) -> Claim:
    return Claim(signal, paper, reports, tuple(indicators.split()))


CLAIMS: tuple[Claim, ...] = (
    _claim(
        "Commutator defect",
        "Xu 2602.16746",
        "it rises 600 to 1,600 steps before generalisation in all 12 runs; its rule of ten "
        "times the first records was set on these runs, and controls rise as well",
        "commutator_defect commutator_rule",
    ),
    _claim(
        "First component of the weight trajectory",
        "Xu 2602.16746",
        "it holds 68 to 83% of the variance, and less of it before modular arithmetic generalises",
        "trajectory_pc1",
    ),
    _claim(
        "Spectral edge of updates",
        "Xu 2603.28964",
        "it closes 600 to 1,700 steps ahead in 24 of 24 runs with weight decay, and in none or "
        "one of 24 without",
        "spectral_edge_gap spectral_edge_ratio",
    ),
    _claim(
        "Commutator of query and key",
        "Xu 2602.16746",
        "it spikes, peaks and falls before generalisation in 6 runs",
        "attention_commutator query_gap",
    ),
    _claim(
        "Lock-in of increments",
        "Xu 2605.08119",
        "it is seen in 15 of 15 runs that generalise and in none of 15 that do not, 35 epochs late",
        "increment_lock_in",
    ),
    _claim(
        "Rank of centroids",
        "Xu 2604.25143",
        "it collapses when the model generalises",
        "centroid_rank",
    ),
    _claim(
        "Sharpness",
        "Notsawo et al. 2306.13253; Cullen 2603.01192",
        "top eigenvalue and trace of the Hessian peak before generalisation and fall after it",
        "hessian_top hessian_trace",
    ),
    _claim(
        "Gradient variance",
        "Acharya and Dhakal 2603.15492",
        "a gate of gradient variance against curvature opens before generalisation",
        "gradient_variance gradient_variance_explosion",
    ),
    _claim(
        "Gradient noise scale",
        "McCandlish et al. 1812.06162",
        "it tells how large a batch is of use; as an announcement it is one of 28 features of a "
        "public forecast",
        "gradient_noise_scale",
    ),
    _claim(
        "Slow gradients",
        "Lee et al. 2405.20233; Golwala 2604.20923",
        "the averaged gradient weakens; Golwala found it 1,862 steps late, give or take 3,532, "
        "over 8 seeds",
        "slow_gradient_norm slow_gradient_rule",
    ),
    _claim(
        "Local learning coefficient",
        "Lau et al. 2402.02364; Cullen 2603.01192",
        "it peaks before generalisation and then falls",
        "learning_coefficient",
    ),
    _claim(
        "Relative flatness",
        "Han et al. 2509.17738",
        "flatter solutions go with generalisation, and neural collapse need not",
        "relative_flatness",
    ),
    _claim(
        "Naive loss minimisation, softmax collapse",
        "Prieto et al. 2501.04697",
        "the gradient aligns with the weights, and losses round to 0, while the model waits; "
        "offered as the reason of the wait, not as its clock",
        "loss_scaling_alignment zero_loss_share",
    ),
    _claim(
        "Residual of dynamic mode decomposition",
        "Wang et al. 2605.08237",
        "AUROC .93 on 17 held-out runs, with 80% of events found while half of the other runs "
        "raised an alarm",
        "dmd_residual dmd_rule hankel_rank",
    ),
    _claim(
        "Oscillation of the training loss",
        "Notsawo et al. 2306.13253",
        "early oscillation tells which runs generalise, seen in maps of hyperparameters",
        "loss_activity loss_mobility loss_complexity",
    ),
    _claim(
        "Heat capacity of losses",
        "Hennick and Corlouer 2603.29805",
        "it peaks before the transition in four settings",
        "loss_heat_capacity loss_participation",
    ),
    _claim(
        "Critical slowing down",
        "Scheffer 2009, Dakos 2012; Benfield 2026",
        "autocorrelation and variance rise before a tipping point; Benfield reports a lead of "
        "21,051 steps in one run",
        "csd_autocorrelation csd_variance loss_autocorrelation loss_autocorrelation_rule "
        "loss_variance_ratio loss_variance_ratio_rule train_loss_variance",
    ),
    _claim(
        "Confidence and logit scale",
        "Truong 2606.18465",
        "the scale of the logits explains 97% of the variance of the delay under clamps",
        "train_confidence logit_scale train_margin_q10 train_margin_q50 train_margin_spread",
    ),
    _claim(
        "Dropout",
        "Salah and Yevick 2507.11645",
        "the variance of accuracy under dropout peaks before generalisation, in single runs",
        "dropout_variance dropout_accuracy",
    ),
    _claim(
        "Broken symmetry",
        "Hwang and Park 2603.01968; Tan and Huang 2311.06597",
        "answers to a, b and b, a come to agree, by one paper before and by the other at "
        "generalisation",
        "swap_divergence swap_agreement",
    ),
    _claim(
        "Input sensitivity",
        "Bhattamishra et al. 2211.12316",
        "solutions that generalise are less sensitive to single tokens",
        "input_sensitivity",
    ),
    _claim(
        "Weight norm",
        "Liu et al. 2210.01117; Truong 2606.13753",
        "it rises, then falls as the model generalises; its run-level AUROC is .98 in the "
        "appendix of 2605.08237, and 2604.20923 finds it 450 steps late",
        "weight_norm weight_norm_drop weight_norm_acceleration steps_since_norm_peak "
        "embedding_norm_drop unembedding_norm_drop attention_norm_drop mlp_norm_drop",
    ),
    _claim(
        "Slingshots",
        "Thilak et al. 2206.04817",
        "jumps of the last layer's norm accompany generalisation, and are not needed for it",
        "unembedding_norm_growth train_loss_spikes",
    ),
    _claim(
        "Fiedler value of the weight graph",
        "Benfield 2026",
        "it rises before generalisation in one run",
        "fiedler_value",
    ),
    _claim(
        "Entropy of updates",
        "Benfield 2026",
        "updates concentrate before generalisation in one run",
        "update_entropy update_top_share",
    ),
    _claim(
        "Effective rank of weights",
        "Yunis et al. 2408.11804; Truong 2607.06639",
        "it falls with generalisation; an audit finds it 10,000 steps late, with the layer norm "
        "deciding",
        "weight_effective_rank stable_rank effective_rank effective_rank_drop",
    ),
    _claim(
        "Heavy tails, correlation traps",
        "Prakash and Martin 2506.04434, 2602.02859",
        "the exponent of the eigenvalues falls toward 2 as a model generalises; traps tell of a "
        "late collapse",
        "tail_exponent correlation_traps",
    ),
    _claim(
        "Entropy of weights",
        "Golechha 2405.12755; Salah and Yevick 2411.05353",
        "it falls sharply at generalisation, by eye",
        "weight_entropy unembedding_weight_entropy",
    ),
    _claim(
        "Compressed length",
        "DeMoss et al. 2412.09810",
        "the complexity of the weights peaks before the model generalises",
        "compressed_length_drop",
    ),
    _claim(
        "Mask distance",
        "Minegishi et al. 2310.19470",
        "the mask of large weights changes when the model generalises, in few runs",
        "mask_distance",
    ),
    _claim(
        "Spectral entropy score",
        "Huang, F-I-T (Zenodo 18380476)",
        "its alarms cover 35 to 41% of events at 5% of windows falsely alarmed, with a held-out "
        "AUC of .43 to .57, on fresh seeds that all generalise",
        "spectral_entropy_drop embedding_entropy_drop attention_entropy_drop",
    ),
    _claim(
        "Fourier concentration",
        "Nanda et al. 2301.05217; Doshi et al. 2310.13061; Furuta et al. 2402.16726",
        "the weights concentrate on few frequencies before accuracy rises, in one to few runs",
        "embedding_gini embedding_gini_gain unembedding_gini unembedding_gini_gain "
        "embedding_participation embedding_top8 embedding_density embedding_balance",
    ),
    _claim(
        "Movement from the start",
        "Barak et al. 2207.08799",
        "the distance from initialisation grows before the loss on parities falls",
        "initial_distance initial_distance_max initial_cosine",
    ),
    _claim(
        "Restricted and excluded loss",
        "Nanda et al. 2301.05217",
        "both improve while held-out accuracy still waits, measured with the frequencies of the "
        "finished model",
        "restricted_loss restricted_loss_drop excluded_loss excluded_loss_rise",
    ),
    _claim(
        "Alignment ratio",
        "Shehper and Vaswani 2605.28975",
        "the output layer aligns with its inputs",
        "alignment_ratio",
    ),
    _claim(
        "Entropy of representations",
        "Truong 2604.13123",
        "it crosses .61 some 1,020 steps ahead in 10 of 10 runs, the line measured on the same ten",
        "hidden_entropy hidden_entropy_rule",
    ),
    _claim(
        "Head-tail contrast",
        "Bi 2603.24746",
        "few directions come to hold the covariance at generalisation, 50 seeds a condition",
        "head_tail_contrast",
    ),
    _claim(
        "Class distances (ILDR, neural collapse)",
        "Golwala 2604.20923; Papyan et al. 2008.08186",
        "the ratio exceeds 2.5 times its early value on held-out rows 950 steps ahead, give or "
        "take 250, over 8 seeds of which all generalise",
        "test_class_distance class_distance_rule train_class_distance",
    ),
    _claim(
        "Bifurcation coordinate",
        "Yang 2605.24057",
        "it crosses its line 8,400 steps ahead, and crosses it in all 15 runs, those without "
        "weight decay too",
        "bifurcation_coordinate",
    ),
    _claim(
        "Frequency synchronisation",
        "Sivasankar 2606.12966",
        "80% of hidden units share a frequency before generalisation in 9 of 9 settings, by "
        "1,722 steps on average",
        "frequency_synchronisation frequency_synchronisation_rule frequency_rank",
    ),
    _claim(
        "Heads that become alike",
        "Verma 2605.20441",
        "similarity rises from .93 to .995; the paper's own gate of a held-out AUC of .85 was "
        "missed with .80",
        "head_similarity head_entropy_spread",
    ),
    _claim(
        "Synergy",
        "Clauw et al. 2408.08944",
        "synergy among groups of units peaks early, in 5 seeds, by eye",
        "synergy redundancy",
    ),
    _claim(
        "Sparsity of activations",
        "Golechha 2405.12755; Salah and Yevick 2507.11645",
        "it reaches a plateau just before generalisation, by eye",
        "activation_sparsity dead_units",
    ),
    _claim(
        "Local circuit complexity",
        "Golechha 2405.12755",
        "it falls with generalisation, by eye",
        "circuit_complexity",
    ),
    _claim(
        "Local complexity of linear regions",
        "Humayun et al. 2402.15555",
        "it descends a second time before the model generalises, by eye",
        "local_complexity",
    ),
    _claim(
        "Centroid alignment",
        "Walker et al. 2506.12284",
        "inputs align with their gradients as the model generalises",
        "centroid_alignment",
    ),
    _claim(
        "Matrix entropies",
        "Tan and Huang 2311.06597; Song et al. 2406.03999",
        "entropies of representations change sharply at generalisation, in two pairs of plots",
        "noise_entropy noise_information head_information_ratio head_entropy_difference",
    ),
    _claim(
        "Intrinsic dimension",
        "Brown et al. 2211.13239",
        "the dimension of activations spikes, then falls, together with generalisation",
        "intrinsic_dimension",
    ),
    _claim(
        "Persistent homology",
        "Tang 2605.06352",
        "total persistence lags the event by 500 to 1,000 steps in components, and rises in loops",
        "component_persistence",
    ),
    _claim(
        "Average gradient outer product",
        "Mallinar et al. 2407.20199",
        "it turns circulant with generalisation",
        "agop_trace agop_top agop_circulant_deviation",
    ),
    _claim(
        "Tangent kernel",
        "Kumar et al. 2310.06110",
        "the kernel moves before the model generalises, by theory and few runs",
        "kernel_alignment kernel_distance kernel_speed",
    ),
    _claim(
        "Rank of features",
        "Fan et al. 2405.19454; Singh et al. 2602.06702",
        "it falls as the model generalises, a hedged claim",
        "hidden_rank hidden_correlation_rank participation_ratio",
    ),
    _claim(
        "Dynamics of distances",
        "Halperin 2606.29679",
        "stable bands of eigenvalues appear in 7 experiments",
        "distance_outliers",
    ),
    _claim(
        "Linear probe",
        "Gomezjurado 2604.13082",
        "a probe reads the answer from hidden states before the model says it",
        "probe_accuracy",
    ),
)

"""The order of the gallery: what a newcomer looks for comes first, then by task."""

from sphinx_gallery.sorting import FileNameSortKey

BY_TASK = (
    # First steps
    "plot_first_fit plot_messy_table plot_gp_classifier plot_calibration plot_certificates"
    # Accuracy, and many rows
    " plot_full_scale_parts plot_full_scale_spatial plot_large_classifier plot_stream"
    " plot_drifting_stream plot_exact_gp plot_not_low_rank"
    # Noise, counts, quantiles, intervals
    " plot_varying_noise plot_outliers plot_counts plot_quantiles plot_intervals"
    # Kernels, and what a model says
    " plot_additive_table plot_trend_season plot_bayesian_optimisation"
    # Without targets, and features
    " plot_nystroem plot_representative_digits plot_novelty plot_denoising_digits plot_two_views"
    " plot_choose_dimension plot_near_duplicates plot_mixture_growth plot_preconditioner"
    # Other sparse models, and theory
    " plot_lp_machine plot_matching_pursuit plot_boosting_margins plot_zhang plot_hull_rate"
).split()


class ByTask(FileNameSortKey):
    """Files as they are listed; others after them, by name."""

    def __call__(self, filename):
        name = filename.removesuffix(".py")
        place = BY_TASK.index(name) if name in BY_TASK else len(BY_TASK)
        return f"{place:03d} {filename}"

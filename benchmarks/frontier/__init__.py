"""Error against time on real data, for our models and those of other packages.

``python -m benchmarks frontier`` runs it. Each fit is a cell: a data set, a model, a setting and a
seed. ``sets`` loads data, ``settings`` lists the models, ``fit`` is one fit in a process of its
own, ``cells`` is the order of work, ``run`` ends fits at the cap, ``store`` keeps what came out.
"""

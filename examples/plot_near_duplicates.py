"""
Near-duplicates among strings
=============================

A list of addresses was typed in by hand, and some were typed in twice, with slips. Which ones? A
string kernel says how alike two addresses are, but there is a pair for every two of them, and every
kernel value costs time. ``SpanNeighbors`` finds exactly the pairs that comparing all would find,
and compares few.
"""

# %%
# The addresses are made up: 900 different ones, and 100 copies with one to three slips.

import numpy as np

rng = np.random.default_rng(0)

NAMES = "Andersen Baumann Castellano Dubois Eriksson Gonzalez Hoffmann Ivanova Kowalski Lindgren"
STREETS = "Ash Birch Cedar Elm Hazel Juniper Larch Maple Poplar Rowan Spruce Walnut Willow"
TOWNS = "Aberdeen Bristol Coventry Durham Exeter Glasgow Hereford Ipswich Lancaster Norwich"


def address():
    name, street, town = (rng.choice(words.split()) for words in (NAMES, STREETS, TOWNS))
    first = rng.choice("Anna Boris Clara David Elena Felix Greta Henrik Irene Jonas".split())
    return f"{first} {name}, {rng.integers(1, 300)} {street} Street, {town}"


def retype(text):
    for _ in range(rng.integers(1, 4)):
        place = rng.integers(len(text) - 1)
        letter = rng.choice(list("abcdefghijklmnopqrstuvwxyz"))
        before, here, after = text[:place], text[place], text[place + 1 :]
        text = [before + letter + after, before + letter + here + after, before + after][
            rng.integers(3)
        ]
    return text


originals = sorted({address() for _ in range(950)})
originals = [originals[i] for i in rng.permutation(len(originals))[:900]]
addresses = originals + [retype(text) for text in originals[:100]]
print(*addresses[:2], *addresses[900:902], sep="\n")

# %%
# The kernel compares the triples of letters that occur in two strings. A text's features are the
# counts of its triples, scaled to length one, and the kernel is their inner product. Written as a
# function of two strings it is slow, as such functions are: some ten microseconds per pair.

from collections import Counter
from functools import cache

from pursuit import SpanNeighbors, pairwise


@cache
def triples(text):
    counts = Counter(text[i : i + 3] for i in range(len(text) - 2))
    length = np.sqrt(sum(count**2 for count in counts.values()))
    return {triple: count / length for triple, count in counts.items()}


def alike(a, b):
    there = triples(b)
    return sum(weight * there.get(triple, 0.0) for triple, weight in triples(a).items())


# %%
# The distance of two texts in feature space is :math:`\sqrt{2 - 2k(a, b)}`: 0 for equal ones,
# :math:`\sqrt 2` where no triple is shared. We ask for all pairs at most 0.7 apart.

search = SpanNeighbors(pairwise(alike), n_components=100, random_state=0).fit(addresses)
distances, indices, cost = search.radius_neighbors(radius=0.7, sort_results=True, return_cost=True)
print(cost)

# %%
# A few of the pairs, and how many of the hundred copies have been found.

for row in range(900, 905):
    for distance, other in zip(distances[row], indices[row], strict=True):
        print(f"{distance:.2f}  {addresses[row]}  |  {addresses[other]}")
found = sum(row - 900 in indices[row] for row in range(900, 1000))
false = sum(len(indices[row]) for row in range(100, 900)) / 2
print(f"{found} of 100 copies found, {false:.0f} pairs of different addresses among the results")

# %%
# How many pairs have to be compared depends on the number of landmarks. Each costs one kernel value
# per row, and tightens the bounds on all distances. The nearest neighbour of a text that has no
# copy is far away, so more pairs are compared to find it.

import matplotlib.pyplot as plt

sizes = [40, 80, 120, 160]
index, radius, nearest = [], [], []
for n in sizes:
    search = SpanNeighbors(pairwise(alike), n_components=n, random_state=0).fit(addresses)
    *_, cost = search.radius_neighbors(radius=0.7, return_cost=True)
    radius.append(cost.share)
    *_, cost = search.kneighbors(n_neighbors=1, return_cost=True)
    nearest.append(cost.share)
    index.append(cost.index_entries / cost.pairs)

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(sizes, nearest, "o-", color="#D55E00", label="search for the nearest")
ax.plot(sizes, radius, "s-", color="#0072B2", label="search within 0.7")
ax.plot(sizes, index, "--", color="0.5", label="index, once")
ax.set_xscale("log")
ax.set_yscale("log")
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.set_xlabel("Landmarks")
ax.set_ylabel("Kernel values, as a share of all pairs")
ax.set_title("Exact neighbours of 1 000 strings")
ax.legend()
plt.show()

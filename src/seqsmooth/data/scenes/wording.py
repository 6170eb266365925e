"""The words for what a scene holds, each with how often people use it: a common word, synonyms, rare ones."""

from __future__ import annotations

from collections.abc import Mapping

Wordings = tuple[tuple[str, int], ...]

# One and many.
THINGS: Mapping[str, tuple[tuple[str, str, int], ...]] = {
    "house": (("house", "houses", 66), ("home", "homes", 15), ("cottage", "cottages", 12), ("cabin", "cabins", 7)),
    "tree": (("tree", "trees", 90), ("oak", "oaks", 7), ("maple", "maples", 3)),
    "car": (("car", "cars", 68), ("vehicle", "vehicles", 18), ("automobile", "automobiles", 9), ("auto", "autos", 5)),
    "cat": (("cat", "cats", 68), ("kitten", "kittens", 20), ("kitty", "kitties", 8), ("feline", "felines", 4)),
    "flower": (("flower", "flowers", 74), ("blossom", "blossoms", 14), ("daisy", "daisies", 12)),
    "mushroom": (("mushroom", "mushrooms", 78), ("toadstool", "toadstools", 15), ("fungus", "fungi", 7)),
    "boat": (("boat", "boats", 54), ("sailboat", "sailboats", 28), ("ship", "ships", 12), ("yacht", "yachts", 6)),
    "duck": (("duck", "ducks", 78), ("duckling", "ducklings", 16), ("mallard", "mallards", 6)),
    "fish": (("fish", "fish", 92), ("goldfish", "goldfish", 8)),
    "balloon": (("balloon", "balloons", 96), ("airship", "airships", 4)),
    "kite": (("kite", "kites", 95), ("toy", "toys", 5)),
    "bird": (("bird", "birds", 82), ("sparrow", "sparrows", 10), ("robin", "robins", 8)),
    "rocket": (("rocket", "rockets", 66), ("spaceship", "spaceships", 24), ("spacecraft", "spacecraft", 10)),
}

DOING: Mapping[str, Wordings] = {
    "house": (("standing", 60), ("sitting", 28), ("nestled", 12)),
    "tree": (("growing", 55), ("standing", 45)),
    "car": (("parked", 60), ("driving", 40)),
    "cat": (("sitting", 65), ("resting", 25), ("perched", 10)),
    "flower": (("growing", 60), ("blooming", 40)),
    "mushroom": (("growing", 80), ("sprouting", 20)),
    "boat": (("sailing", 60), ("floating", 30), ("drifting", 10)),
    "duck": (("swimming", 70), ("floating", 20), ("paddling", 10)),
    "fish": (("swimming", 100),),
    "balloon": (("floating", 65), ("flying", 25), ("drifting", 10)),
    "kite": (("flying", 80), ("soaring", 20)),
    "bird": (("flying", 75), ("soaring", 17), ("gliding", 8)),
    "rocket": (("flying", 60), ("launching", 25), ("blasting off", 15)),
}

COLOURS: Mapping[str, Wordings] = {
    "red": (("red", 88), ("scarlet", 7), ("crimson", 5)),
    "yellow": (("yellow", 90), ("golden", 10)),
    "green": (("green", 93), ("emerald", 7)),
    "blue": (("blue", 91), ("navy", 9)),
    "purple": (("purple", 82), ("violet", 18)),
    "pink": (("pink", 92), ("rosy", 8)),
    "white": (("white", 93), ("pale", 7)),
    "black": (("black", 86), ("dark", 14)),
}

SIZES: Mapping[str, Wordings] = {
    "small": (("small", 50), ("little", 35), ("tiny", 15)),
    "medium": (),  # not worth a word
    "large": (("large", 46), ("big", 42), ("huge", 12)),
}

COUNTS: Mapping[int, Wordings] = {
    2: (("two", 80), ("a pair of", 12), ("a couple of", 8)),
    3: (("three", 82), ("some", 12), ("a trio of", 6)),
    4: (("four", 70), ("several", 18), ("some", 12)),
}

# What is said of the first group as seen from the second.
RELATIONS: Mapping[str, Wordings] = {
    "left": (("to the left of", 42), ("left of", 10), ("next to", 26), ("beside", 14), ("near", 8)),
    "right": (("to the right of", 42), ("right of", 10), ("next to", 26), ("beside", 14), ("near", 8)),
    "above": (("above", 58), ("over", 32), ("high above", 10)),
    "below": (("below", 44), ("under", 36), ("beneath", 14), ("underneath", 6)),
}
OPPOSITES = {"left": "right", "right": "left", "above": "below", "below": "above"}

SETTINGS: Mapping[str, Wordings] = {
    "meadow": (("in a meadow", 34), ("in a green field", 26), ("on the grass", 26), ("in the countryside", 14)),
    "beach": (("on the beach", 50), ("on the sand", 24), ("at the beach", 16), ("by the ocean", 10)),
    "sea": (("on the water", 38), ("in the sea", 26), ("in the ocean", 22), ("on a calm lake", 14)),
    "snow": (("in the snow", 62), ("on a snowy day", 26), ("in winter", 12)),
    "night": (("at night", 64), ("under the moon", 24), ("in the dark", 12)),
    "desert": (("in the desert", 70), ("on a sandy plain", 18), ("in the dunes", 12)),
    "city": (("in the city", 42), ("on the street", 34), ("on a road", 16), ("in town", 8)),
}
ALOFT: Wordings = (("in the sky", 70), ("in the air", 30))

# {first} "two red balloons", {relation} "above", {second} "a small house", {where} "on the beach", {be} "are".
OF_TWO: Wordings = (
    ("{first} {relation} {second} {where}", 32),
    ("{first} {doing} {relation} {second} {where}", 22),
    ("{first} and {second} {where}", 18),
    ("{where} there {be} {first} {relation} {second}", 7),
    ("there {be} {first} {relation} {second} {where}", 11),
    ("{second} with {first} {relation} {it} {where}", 10),
)
OF_ONE: Wordings = (
    ("{first} {where}", 36),
    ("{first} {doing} {where}", 34),
    ("there {be} {first} {where}", 12),
    ("{first} {be} {doing} {where}", 12),
    ("a picture of {first} {where}", 6),
)

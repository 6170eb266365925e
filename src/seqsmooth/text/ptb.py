"""The tokeniser of coco-caption in pure Python: Stanford's PTBTokenizer, lower-cased, its punctuation taken out.

The rules below are those of Stanford's lexer that captions and plain English prose need; rules for web addresses,
e-mail, markup and the like are left out. `docs/text.md` says how often the two agree on COCO.
"""

from __future__ import annotations

import re
from functools import lru_cache

PUNCTUATION = frozenset(
    ("''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";")
)
"""What coco-caption takes out. Tokens are in lower case by then, so that -lrb- and its like stay, there as here."""

_BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}
_QUOTES = str.maketrans("’‘", "''")
_ENTITIES = {"&apos;": "'", "&quot;": '"', "&lt;": "<", "&gt;": ">", "&amp;": "&"}
_MONEY = {"£": "#", "€": "$", "¢": "cents"}  # the treebank was typed on an American keyboard
_PAIRS = {
    "cannot": ("can", "not"),
    "gonna": ("gon", "na"),
    "gotta": ("got", "ta"),
    "lemme": ("lem", "me"),
    "gimme": ("gim", "me"),
    "wanna": ("wan", "na"),
    "'tis": ("'t", "is"),
    "'twas": ("'t", "was"),
}
_ABBREVIATIONS = (  # in any case
    "jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|inc|cos?|corp|ltd|plc|bros|dept|univ|intl|assn"
    "|mrs?|ms|drs?|prof|rev|gen|reps?|sens?|gov|lt|col|capt|cmdr|sgt|maj|messrs|jr|sr|bldg|mt|ft"
    "|ave|blvd|rd|st|ct|hwy|pkwy|etc|vs|al|seq|esq|eds?|est|tel|ph\\.d|natl|penn"
)
_STATES = (  # only as they are written here: "half mass." and "an ore." end sentences
    "Ala|Ariz|Ark|Calif|Colo|Conn|Dak|Del|Fla|Ga|Ill|Ind|Kans?|K[yY]|L[aA]|Mass|Mich|Minn|Miss|Mo|Mont|Neb|Nev|Okla|Ore"
    "|Pa|Tenn|Tex|Va|Vt|Wash|Wisc?|Wyo"
)
_LETTER = r"[^\W\d_]"
_TOKEN = re.compile(
    rf"""
      (?P<acronym>{_LETTER}(?:\.{_LETTER})+\.?(?![^\W_]))                 # U.S., t.v, p.m.
    | (?P<abbreviation>(?:{_ABBREVIATIONS}|(?-i:{_STATES}))\.(?![^\W_]))   # St., Ave., Penn.
    | (?P<stopped>[a-z]+(?:-[a-z]+)*\.(?=[,;]))                          # what a comma follows ends no sentence
    | (?P<initial>[a-z]\.(?![^\W_.]))                                      # J. Smith
    | (?P<joined>[a-z]+(?:-[a-z]+)*(?:\.[a-z]+)+(?![^\W_]))               # flickr.com, and where a space is missing
    | (?P<clitic>'(?:[msd]|re|ve|ll)(?![^\W_]))                           # 's, where a word is before it
    | (?P<apostrophe>
          o'[a-z]{{2,}}(?:-[^\W_]+)* | d'[^\W_]{{2,}} | l'[^\W_]{{2,}} | (?:dunkin|somethin|ol|nothin|rock-n-)'
        | 'n'? (?![^\W_]) | 'em (?![^\W_]) | '(?:tis|twas|till|cause)(?![^\W_]) | '\d0s | c'mon | ma'am | y'(?=all)
      )
    | (?P<currency>(?:us|[acs]|hk|nz)\$)
    | (?P<number>[+-]?\d*(?:[.:,]\d+)+(?:-[^\W_]+)*)       # 3.5, 11:20, 1,000, .5
    | (?P<ampersand>(?-i:[A-Z]+(?:[+&][A-Z]+)+))                               # AT&T
    | (?P<slashed>\w+(?:-{_LETTER}+){{0,2}}(?:/\w+(?:-{_LETTER}+){{0,2}}){{1,2}}(?![-/]?\w))
    | (?P<negated>(?:(?!n't)[^\W_])+(?=n't(?![^\W_])))                    # do of don't
    | (?P<negation>n't(?![^\W_]))
    | (?P<word>\w+(?:-(?:[dol]')?\w+)*)
    | (?P<dots>\.{{2,}}|…)
    | (?P<dashes>-{{2,}}|[–—])
    | (?P<quotes>"|''|``|[“”„‟«»])
    | (?P<bracket>[()\[\]{{}}])
    | (?P<marks>[?!]+)
    | (?P<one>\S)
    """,
    re.VERBOSE | re.IGNORECASE,
)


class PtbTokeniser:
    """Split English text as coco-caption does before it scores captions (Stanford's PTBTokenizer).

    Examples:
        >>> PtbTokeniser()("A man doesn't see the dog's half-eaten Frisbee.")
        ['a', 'man', 'does', "n't", 'see', 'the', 'dog', "'s", 'half-eaten', 'frisbee']
    """

    signature = "ptb"

    def __call__(self, text: str) -> list[str]:
        """Split one text."""
        tokens: list[str] = []
        for chunk in text.split():
            tokens += _split(chunk)
        return tokens


@lru_cache(maxsize=1 << 17)  # the rules see one piece between spaces at a time, and most pieces come again
def _split(chunk: str) -> tuple[str, ...]:
    tokens: list[str] = []
    if "&" in chunk:
        for entity, character in _ENTITIES.items():
            chunk = chunk.replace(entity, character)
    for match in _TOKEN.finditer(chunk.translate(_QUOTES)):
        kind, token = match.lastgroup, match[0].lower()
        if token in _PAIRS:
            tokens += _PAIRS[token]
        elif kind == "bracket":
            tokens.append(_BRACKETS[token])
        elif kind in ("dots", "dashes", "quotes"):
            continue
        elif token not in PUNCTUATION:
            tokens.append(_MONEY.get(token, token))
    return tuple(tokens)

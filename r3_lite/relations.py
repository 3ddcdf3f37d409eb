"""Typed relations between found entities, by patterns over the sentence.

Entities are replaced by typed marks (`<P3> manages <J4>, which depends on <T5>`). Each verb family says which types
may stand left and right of it; these types are what keeps the patterns precise. A verb with its objects is found
first, then its subject is looked for to the left: beside it, before a relative clause or apposition, or, where a
coordination (`, and uses`) stands to the left, the subject of the clause before. Questions, conditions, negations,
wishes, plans and former states give no relation.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from r3_lite.entity_words import Span

Found = tuple[int, str, int]  # index of the source span, type, index of the target span

RELATION_TYPES = (
    "WORKS_FOR",
    "MANAGES",
    "LEADS",
    "REPORTS_TO",
    "USES",
    "BUILT_WITH",
    "OWNS",
    "LOCATED_IN",
    "PART_OF",
    "KNOWS",
    "DEPENDS_ON",
    "INTEGRATES_WITH",
    "RELATED_TO",
)

_LETTERS = {
    "people": "P",
    "organizations": "O",
    "technologies": "T",
    "projects": "J",
    "places": "L",
    "dates": "D",
}
# Longer stretches without a full stop are cut here: patterns are for sentences, and time stays linear.
_LONGEST = 1_000
_NEAR = 200  # how far left of its verb a subject may stand, in characters of the marked text

_NOUN = (
    r"(?:project|app|application|platform|service|repository|repo|team|group|department|squad|system|initiative|"
    r"migration|module|library|package|codebase|product|tool|dashboard|rollout|client|backend|frontend|website|"
    r"site|company|startup|server|pipeline|database|cluster|crew|guild|unit|office)"
)
_ROLE = (
    r"(?:engineers?|designers?|managers?|CTO|CEO|CFO|COO|cto|ceo|cfo|coo|VP|vp|leads?|scientists?|interns?|"
    r"consultants?|developers?|architects?|analysts?|recruiters?|directors?|professors?|researchers?|contacts?|reps?|"
    r"representatives?|employees?|president|officers?|accountants?|lawyers?|students?|administrators?|advisors?|"
    r"programmers?|technicians?|writers?|editors?|nurses?|doctors?|teachers?|secretary|assistants?|chairman|"
    r"chairwoman|chair|board member|partners?|specialists?|testers?|supervisors?|sales ?(?:wo)?man|buyer)"
)
_ADVERB = (
    r"(?:now|also|still|currently|mainly|mostly|primarily|both|all|only|officially|recently|already|just|directly|"
    r"personally|usually|often|always|really|then|temporarily|today|since then|together|jointly|again|\w+ly)"
)
_AUXILIARY = r"(?:is|are|was|were|been|being|be|has|have|had|will|going to|'s|does|do|did)"
_HINDRANCE = (
    r"(?:not|n't|never|no longer|might|may|could|would|should|used to|previously|formerly|once|"
    r"(?:plans?|planned|wants?|wanted|hopes?|hoped|needs|tries|tried|refused|declined|failed|intends?|considers?|"
    r"thinks? about|is considering|stopped|cannot|can't)(?: to)?|doesn't|don't|didn't|isn't|wasn't|aren't|won't|"
    r"hasn't|haven't|hadn't)"
)
_GAP = rf"(?:(?: |(?<=')){_ADVERB}| {_AUXILIARY}|'s| {_HINDRANCE})*"
_PHRASE_WORD = (
    r"(?!(?:and|or|but|not|no|instead|than|of|for|from|to|in|on|at|with|by|less|how|what|why|that|which|who|if|"
    r"whether|when|because|as|via|over|under|without|about|against|neither|either|nothing|is|are|was)\b)[\w'-]+"
)
_DETERMINER = rf"(?:{_PHRASE_WORD} ){{0,4}}?"
_VERSION = r"(?: v?\d[\d.x]*)?"
_SEPARATOR = r"(?:,? and|,? or|,? &| plus|,|/| as well as| together with)"

_BLOCK = re.compile(
    rf"\b(?:{_HINDRANCE}|if|whether|unless|wonders?|doubts?|rumou?red|instead of|rather than|without|unsure|maybe|"
    r"perhaps|possibly|probably|rejected|against|ex|former|considering|asked)\b|n't\b",
    re.IGNORECASE,
)
_NO_STATEMENT = re.compile(
    r"\s*(?:[-*•]\s*)?(?:(?:if|when|should|unless|whether|maybe|perhaps|suppose|imagine|what if)\b|"
    r"(?:does|do|did|is|are|was|were|will|can|could|would|has|have|who|what|which|why|how|where|whose)\b(?! to\b))",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:if|whether|unless|in case|assuming|suppose|rumou?r|instead of)\b[^<>]*$", re.IGNORECASE)
_OVER = re.compile(r"[^<,.;]{0,12}\b(?:anymore|any more|any longer|not decided|until|till)\b")
_POSSESSIVE = ("'s", "’s")
# "needs a Go developer": the technology only describes what is needed.
_DESCRIBES = re.compile(
    r" (?:developers?|engineers?|experts?|experience|skills?|people|support|training|courses?|books?|license|licence)\b"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|;\s+")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|approx|incl|resp)\.$")
_LEADS_IT = re.compile(r"(<P\d+> (?:leads|manages|owns|runs)) it\b")
_MARK = re.compile(r"<([A-Z])(\d+)>")


def _one(types: str) -> str:
    return rf"<[{types}]\d+>"


def _list(types: str) -> str:
    one = _one(types) + _VERSION
    also = r"(?:the |a |an |both |also |our )?"
    # "runs Postgres on top of Kubernetes" uses both.
    separator = rf"(?:{_SEPARATOR}| with| on top of| on)" if types == "T" else _SEPARATOR
    return rf"{one}(?:{separator} {also}{one})*"


@dataclass(frozen=True, slots=True)
class _Family:
    """Verbs of one relation. `inverse`: the grammatical subject is the target (`Atlas is led by Ana`)."""

    type: str
    subjects: str
    verbs: str
    objects: str
    inverse: bool = False
    pattern: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        pattern = rf"(?<![\w<'-])(?P<verb>{self.verbs})(?P<det> {_DETERMINER}| )(?P<objects>{_list(self.objects)})"
        object.__setattr__(self, "pattern", re.compile(pattern))


_PARTICIPLE = re.compile(
    r"(?:based|located|headquartered|hosted|situated|built|written|rewritten|led|headed|managed|owned|integrated|"
    r"connected|founded|created|made|developed|maintained|supervised|used|employed|implemented|powered|backed|"
    r"deployed|run by|part of|an? |the |our )"
)

# "Ana, head of Marketing, …": a noun phrase beside its subject, not the verb of a clause.
_NOMINAL = re.compile(
    rf"(?!(?:is|are|was|as|became|works?) )(?:[\w/-]+ )*?(?:{_ROLE}|head|leaders?|founders?|owners?|creators?|authors?|"
    r"makers?|inventors?|boss|supervisor|part|members?|division|subsidiary|branch|component|module|unit|"
    r"friends?|colleagues?|brother|sister|cousins?) (?:of|at|in|for|with|on)"
)

_FAMILIES = (
    _Family(
        "WORKS_FOR",
        "P",
        r"works? (?:remotely |full[- ]time |part[- ]time |as an? [\w -]{2,30} )?(?:at|for)|working (?:at|for)|"
        r"(?<=has )worked (?:at|for)|(?<=have )worked (?:at|for)|joined|joins|(?:is |are )?joining|interns? (?:at|for)|"
        r"(?:is |are )?employed (?:at|by)|(?:just |recently )?(?:started|starts) (?:working )?(?:at|for)|"
        r"got (?:a job|hired|an internship) (?:at|by)|got promoted at|consults for|freelances for|teaches at|"
        r"studies at|(?:is |are )?on",
        "O",
    ),
    _Family(
        "WORKS_FOR",
        "P",
        rf"(?:is |are |was |as |became )?(?:an? |the |our |my |their )?(?:[\w/-]+ ){{0,3}}?{_ROLE} (?:at|in|of|for|with)",
        "O",
    ),
    _Family(
        "LEADS",
        "PO",
        r"leads?|led|leading|heads?(?: up)?|headed|heading|(?:is |are |was )?(?:the |a )?(?:[\w-]+ )?"
        r"(?:lead|leader|head) (?:of|on|for)|(?:is )?in charge of|spearheads|runs point on|heads up",
        "JO",
    ),
    _Family(
        "MANAGES",
        "PO",
        r"manages?|managed|managing|supervises?|supervising|oversees?|overseeing|"
        r"(?:is |are |was )?(?:the |a )?(?:(?!account|office|product)[\w-]+ )?manager (?:of|for)|"
        r"(?:is )?(?:the )?(?:boss|supervisor) of",
        "PJO",
    ),
    _Family("REPORTS_TO", "PO", r"reports? (?:directly )?to|reporting (?:directly )?to|reported to|answers to", "P"),
    _Family(
        "USES",
        "POJT",
        r"uses?|using|used|utili[sz]es?|leverages?|adopted|adopts|runs? on(?: top of)?|runs?|running on|switched to|"
        r"migrated to|moved to|standardi[sz]ed on|relies heavily on using|(?:is |are )?(?:powered|backed) by|"
        r"(?:is |are |was )?(?:deployed|hosted) (?:on|to)",
        "T",
    ),
    _Family(
        "BUILT_WITH",
        "JT",
        r"(?:mostly |mainly |originally |entirely |partly )?(?:built|written|rewritten|created|developed|implemented|"
        r"coded|made|programmed) (?:with|using|on top of|on|in|from)",
        "T",
    ),
    _Family(
        "OWNS",
        "PO",
        r"owns?|owned|founded|co-?founded|started|created|creates|makes|made|acquired|acquires|bought|builds?|built|"
        r"develops?|developed|wrote|invented|designed|authored|launched|"
        r"(?:is |are |was )?(?:the |a |one of the )?(?:co-?)?(?:founders?|owners?|creators?|authors?|makers?|inventors?) of",
        "JOT",
    ),
    _Family(
        "LOCATED_IN",
        "POJ",
        r"lives? in|living in|(?:is |are )?(?:located|based|headquartered|hosted|situated|headquarters) (?:in|at|out of)|"
        r"moved to|relocated to|(?:has|have|opened|runs|keeps|maintains) (?:[\w-]+ ){0,3}?(?:offices?|headquarters|labs?) in|"
        r"resides in|operates (?:in|from)|runs in|works (?:remotely )?(?:from|in|out of)|settled in",
        "L",
    ),
    _Family(
        "PART_OF",
        "POJT",
        r"(?:is |are )?(?:an? |the )?(?:[\w-]+ )?(?:part|members?|division|subsidiary|branch|component|module|unit|"
        r"subproject|department|submodule|plugin) of|belongs? to|sits (?:within|under|in)|falls under",
        "OJ",
    ),
    _Family(
        "KNOWS",
        "P",
        r"knows?|met|(?:is |are )?(?:an? |the )?(?:[\w-]+ )?(?:friends?|colleagues?|acquaintances?|buddy|buddies|"
        r"coworkers?|neighbou?rs?|cousins?|brother|sister|mentor|partner|husband|wife) (?:of|with)|(?:is |are )?married to|"
        r"works? (?:closely |together )?(?:with|alongside)|collaborates? (?:closely )?with|mentors?|"
        r"lives with|(?:is |are )?friends with|sits next to|pairs with",
        "P",
    ),
    _Family(
        "DEPENDS_ON",
        "JT",
        r"depends? (?:heavily )?(?:up)?on|depending on|requires?|required|rel(?:ies|y|ied) (?:heavily )?on|needs?",
        "JT",
    ),
    _Family(
        "INTEGRATES_WITH",
        "JTO",
        r"integrates? (?:well )?with|integrated (?:with|into)|connects? (?:to|with)|connected (?:to|with)|"
        r"syncs? (?:to|with)|talks to|hooks into|interfaces with|plugs into|communicates with",
        "TJO",
    ),
    _Family(
        "RELATED_TO",
        "POJT",
        r"(?:is |are )?(?:closely )?(?:related|linked|tied) to|relates to|(?:is |are )?associated with",
        "POJT",
    ),
    _Family("MANAGES", "PJO", r"(?:managed|supervised|overseen) by", "PO", inverse=True),
    _Family("LEADS", "JO", r"(?:led|headed|run|spearheaded) by", "PO", inverse=True),
    _Family(
        "OWNS",
        "JOT",
        r"(?:owned|founded|co-?founded|started|created|made|built|developed|acquired|bought|written|designed|invented|"
        r"authored) by",
        "PO",
        inverse=True,
    ),
    _Family("USES", "T", r"used by", "POJ", inverse=True),
    _Family("WORKS_FOR", "O", r"hired|hires|employs|recruited", "P", inverse=True),
    _Family("DEPENDS_ON", "JT", r"(?:required|needed) by", "JT", inverse=True),
)
_PREFILTER = re.compile(r"<[A-Z]\d+>.*<[A-Z]\d+>", re.DOTALL)

_ANY = "POJT"
_LEFT = re.compile(
    rf"(?P<list>{_list('POJTL')})(?: {_NOUN})?(?: \([^)]*\))?(?P<comma>,| –| -)?"
    rf"(?P<relative> (?:who|which|that))?(?P<gap>{_GAP}) ?\(?$"
)
_COORDINATION = re.compile(rf"(?:,? and then|,? and|,? but|,? then|,|,? or| before| after| by| while)(?P<gap>{_GAP}) $")
_HEAD = re.compile(rf"^(?:[-*•] )?(?:[\w ]{{0,30}}: )?(?:[Tt]he |[Mm]y |[Oo]ur )?(?P<list>{_list(_ANY)})")


def find_relations(text: str, spans: Sequence[Span]) -> list[Found]:
    """Relations between `spans` (sorted, without overlaps) of `text`, in reading order, each once.

    Two mentions of one name are not related to each other; the same pair and type is reported at its first place.
    """
    if len(spans) < 2:
        return []
    names = [text[span.start : span.end] for span in spans]
    reader = _Reader(spans)
    found: list[Found] = []
    seen: set[tuple[str, str, str]] = set()
    for sentence in _sentences(_marked(text, spans)):
        for source, kind, target in reader.read(sentence):
            key = (names[source], kind, names[target])
            if names[source] != names[target] and key not in seen:
                seen.add(key)
                found.append((source, kind, target))
    # Who leads, owns or belongs to a thing is not said to work for it as well.
    closer = {(names[a], names[b]) for a, kind, b in found if kind in ("PART_OF", "LEADS", "MANAGES", "OWNS")}
    return [
        (a, kind, b) for a, kind, b in found if not (kind == "WORKS_FOR" and (names[a], names[b]) in closer)
    ]


def _marked(text: str, spans: Sequence[Span]) -> str:
    parts = []
    done = 0
    for i, span in enumerate(spans):
        # "<" of the text itself must not look like a mark.
        parts += [text[done : span.start].replace("<", "("), f"<{_LETTERS[span.type]}{i}>"]
        done = span.end
    parts.append(text[done:].replace("<", "("))
    return "".join(parts).replace("’", "'")


def _sentences(marked: str) -> Iterator[str]:
    start = 0
    for match in _SENTENCE.finditer(marked):
        if _ABBREVIATION.search(marked, max(start, match.start() - 8), match.start()):
            continue
        yield from _pieces(marked[start : match.start()])
        start = match.end()
    yield from _pieces(marked[start:])


def _pieces(sentence: str) -> Iterator[str]:
    while len(sentence) > _LONGEST:
        cut = sentence.rfind(" ", 0, _LONGEST)
        cut = cut if cut > 0 else _LONGEST
        yield sentence[:cut]
        sentence = sentence[cut:]
    yield sentence


def _ids(marks: str) -> list[int]:
    return [int(number) for _, number in _MARK.findall(marks)]


@dataclass(slots=True)
class _Clause:
    """A verb with the ends found so far."""

    family: _Family
    start: int  # of the verb
    objects_start: int
    end: int
    objects: list[int]
    subjects: list[int] = field(default_factory=list)


class _Reader:
    """Owns what pronouns may refer to while the sentences of one text are read in order."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.letters = [_LETTERS[span.type] for span in spans]
        self.person: str | None = None
        self.thing: str | None = None
        self.several: str | None = None

    def read(self, sentence: str) -> list[Found]:
        """Relations of one sentence; remembers whom and what it speaks of."""
        sentence = self._with_names_for_pronouns(sentence)
        found: list[Found] = []
        if (
            _PREFILTER.search(sentence)
            and not sentence.rstrip().endswith("?")
            and not _NO_STATEMENT.match(sentence)
        ):
            for clause in self._clauses(sentence):
                for subject in clause.subjects:
                    for target in clause.objects:
                        ends = (target, subject) if clause.family.inverse else (subject, target)
                        found.append((ends[0], clause.family.type, ends[1]))
            found += _constructions(sentence)
        self._remember(sentence)
        return found

    def _with_names_for_pronouns(self, sentence: str) -> str:
        if self.person:
            sentence = re.sub(r"^(?:[-*•] )?(?:He|She|he|she)\b", self.person, sentence)
            sentence = re.sub(r"^(?:His|Her|his|her)\b", f"{self.person}'s", sentence)
        if self.thing:
            sentence = re.sub(r"^(?:It|it)\b", self.thing, sentence)
        if self.several:
            sentence = re.sub(r"^(?:Both|They|both|they)\b", self.several, sentence)
        people = list(re.finditer(r"<P\d+>", sentence))
        if people:
            # "Ana likes Go, but she uses Rust": the last person before.
            def named(match: re.Match[str]) -> str:
                before = [person for person in people if person.end() <= match.start()]
                return match[1] + (before[-1].group() if before else match[2])

            sentence = re.sub(r"(, | and | but |; )(he|she)\b", named, sentence)
        # "Kickoff of Atlas: Ana leads it."
        here = re.match(r"[^<]*(?:<[DL]\d+>[^<]*)*(<J\d+>)", sentence)
        thing = here[1] if here else self.thing
        if thing:
            start = here.end() if here else 0
            sentence = sentence[:start] + _LEADS_IT.sub(rf"\1 {thing}", sentence[start:])
        return sentence

    def _remember(self, sentence: str) -> None:
        if people := re.search(r"<P\d+>", sentence):
            self.person = people.group()
        if subject := re.match(rf"(?:[Tt]he )?({_one('JTO')})", sentence) or re.search(r"()(<J\d+>)", sentence):
            self.thing = subject[subject.lastindex or 1]
        pair = re.match(rf"({_list('P')})", sentence) or re.search(
            rf"(?:depends on|requires|uses|:) (?:the )?({_list('JT')})", sentence
        )
        self.several = pair[1] if pair and len(_ids(pair[1])) > 1 else None

    def _clauses(self, sentence: str) -> list[_Clause]:
        clauses = [
            _Clause(family, m.start("verb"), m.start("objects"), m.end(), _ids(m["objects"]))
            for family in _FAMILIES
            for m in family.pattern.finditer(sentence)
            if not _blocked_after(family, sentence[m.end() : m.end() + 25])
            and not _BLOCK.search(m["det"])
        ]
        clauses.sort(key=lambda clause: (clause.start, clause.end))
        head = _HEAD.match(sentence)
        speaker: list[int] = []
        speaker_end = 0
        if head:
            speaker, speaker_end = _ids(head["list"]), head.end()
        kept: list[_Clause] = []
        for clause in clauses:
            left = sentence[max(0, clause.start - _NEAR) : clause.start]
            subjects, end = self._subjects(clause, left, sentence, speaker, speaker_end, kept)
            if subjects:
                speaker, speaker_end = subjects, end
            clause.subjects = [i for i in subjects if self.letters[i] in clause.family.subjects]
            if clause.subjects:
                kept.append(clause)
        return kept

    def _subjects(
        self,
        clause: _Clause,
        left: str,
        sentence: str,
        speaker: list[int],
        speaker_end: int,
        before: list[_Clause],
    ) -> tuple[list[int], int]:
        """Subjects of the clause and where they end; none where it is blocked or stands alone."""
        offset = clause.start - len(left)
        match = _LEFT.search(left)
        if match:
            if _BLOCK.search(match["gap"]) or _CONDITION.search(left[: match.start()][-40:]):
                return [], 0
            ids = _ids(match["list"])
            end = offset + match.end("list")
            verb = sentence[clause.start : clause.objects_start].rstrip()
            beside = _PARTICIPLE.match(verb) or _NOMINAL.fullmatch(verb.removesuffix(" the").removesuffix(" our"))
            finite = not beside or match["gap"].strip() != ""
            apposed = match["comma"] and not match["relative"] and finite
            if apposed and speaker and speaker_end <= offset + match.start("list"):
                # "Ana, who leads Atlas, uses Go" and "Atlas uses Go, depends on Nova": the subject stands further left.
                if _BLOCK.search(sentence[speaker_end : clause.start]):
                    return [], 0
                return speaker, speaker_end
            for other in before:
                # "Atlas uses Go and Nova uses Rust": the second subject is no object of the first verb.
                if other.objects_start <= offset + match.start("list") < other.end and len(ids) > 1:
                    other.objects = [i for i in other.objects if i != ids[-1]]
                    ids = ids[-1:]
            return ids, end
        match = _COORDINATION.search(left)
        if match and speaker and speaker_end <= clause.start:
            between = sentence[speaker_end : clause.start]
            contrast = " but" in match.group() and not _BLOCK.search(match["gap"])
            if contrast or not _BLOCK.search(between):
                return speaker, speaker_end
        return [], 0


def _blocked_after(family: _Family, after: str) -> bool:
    if _OVER.match(after) or (family.objects == "T" and _DESCRIBES.match(after)):
        return True
    # "knows Ana's brother", "manages Ana's calendar"
    return family.type in ("KNOWS", "REPORTS_TO", "MANAGES") and after.startswith(_POSSESSIVE)


_NOUNS_OF = {"head": "LEADS", "lead": "LEADS", "leader": "LEADS", "owner": "OWNS", "founder": "OWNS", "manager": "MANAGES"}

# Each: pattern with groups a and b, and what it says. `None`: decided by the matched noun.
_CONSTRUCTIONS: tuple[tuple[re.Pattern[str], str | None, bool], ...] = tuple(
    (re.compile(pattern), kind, inverse)
    for pattern, kind, inverse in (
        # Ana from Acme
        (rf"(?P<a>{_one('P')}) (?:from|in|of|over at) (?:the )?(?P<b>{_one('O')})(?! office| event| conference)", "WORKS_FOR", False),
        (rf"(?P<a>{_one('P')}) \((?P<b>{_one('O')})\)", "WORKS_FOR", False),
        (rf"(?:[Aa]sk|[Ee]mail|[Cc]all|[Cc]ontact|[Pp]ing|[Tt]ell|[Mm]essage) (?P<a>{_one('P')}) at (?P<b>{_one('O')})", "WORKS_FOR", False),
        # Acme's CTO Ana; Acme CTO Ana; the CTO of Acme is Ana
        (rf"(?P<a>{_one('O')})(?:'s)? (?:[\w-]+ ){{0,2}}?{_ROLE},? (?:is )?(?P<b>{_one('P')})", "WORKS_FOR", True),
        (rf"\b{_ROLE} (?:of|at|for) (?P<a>{_one('O')})(?:,| is|:) (?P<b>{_one('P')})", "WORKS_FOR", True),
        (rf"\b(?P<noun>head|lead|leader|owner|founder|manager) (?:of|for) (?:the )?(?P<a>{_one('OJ')})(?: {_NOUN})?(?:,| is|:) (?P<b>{_one('P')})", None, True),
        # the CTO at Acme, Ana; led by Acme's Ana
        (rf"(?P<a>{_one('O')})'s (?P<b>{_one('P')})", "WORKS_FOR", True),
        # works on Atlas with Go; we use Go for Atlas
        (rf"(?:works?|working|worked) on (?:the )?(?P<a>{_list('J')})(?: {_NOUN})? (?:with|using|in) (?P<b>{_list('T')})", "USES", False),
        (rf"\b(?:use|uses|adopted|chose|picked|introduced) (?P<b>{_list('T')}) (?:for|in|on) (?:the )?(?P<a>{_list('J')})", "USES", False),
        (rf"^[Ff]or (?:the )?(?P<a>{_list('J')})(?: {_NOUN})?,? (?:we|they|I) (?:now )?use (?P<b>{_list('T')})", "USES", False),
        (rf"(?:migrated|moved|switched|ported) (?:the )?(?P<a>{_list('J')})(?: {_NOUN})?(?: (?:over|away))?(?: from {_list('T')})? to (?P<b>{_list('T')})", "USES", False),
        (rf"(?P<a>{_list('POJT')})(?: {_NOUN})? (?:switched|migrated|moved) from {_list('T')} to (?P<b>{_list('T')})", "USES", False),
        # wrote Atlas in Go
        (rf"(?:[Bb]uild|[Bb]uilds|built|building|wrote|write|writes|writing|written|rewrote|rewriting|developed|develops|created|implemented|prototyped) (?:the |a |an |our )?(?P<a>{_list('J')})(?: {_NOUN})? (?:with|using|in|on top of) (?P<b>{_list('T')})", "BUILT_WITH", False),
        (rf"(?P<a>{_list('J')})(?: {_NOUN})? (?:was|were|has been|got) (?:rewritten|ported|converted) from {_list('T')} (?:to|in|into) (?P<b>{_list('T')})", "BUILT_WITH", False),
        (rf"[Ii]ntegration (?:between|of) (?P<a>{_one('JTO')}) (?:and|with|into) (?P<b>{_one('JTO')})", "INTEGRATES_WITH", False),
        # Acme, a small studio in Lisbon; Lisbon-based Acme
        (rf"(?P<a>{_one('OP')}), (?:(?:an?|the) (?:[\w-]+ ){{1,5}}?)?(?:based |located )?(?:in|from) (?P<b>{_one('L')})", "LOCATED_IN", False),
        (rf"(?P<a>{_one('O')}) is (?:an?|the|our) (?:[\w-]+ ){{1,5}}?(?:based )?(?:in|from) (?P<b>{_one('L')})", "LOCATED_IN", False),
        (rf"(?P<b>{_one('L')})[- ]based (?:[\w-]+ ){{0,2}}(?P<a>{_one('O')})", "LOCATED_IN", False),
        # Ana's manager is Bo; Bo is Ana's manager
        (rf"(?P<a>{_one('PO')})'s (?:new |direct |line )?(?:manager|boss|supervisor|lead) is (?:now )?(?P<b>{_one('P')})", "REPORTS_TO", False),
        (rf"(?P<b>{_one('P')}) is (?:now )?(?P<a>{_one('P')})'s (?:new |direct |line )?(?:manager|boss|supervisor)", "REPORTS_TO", False),
        (rf"(?P<a>{_one('P')}) is (?P<b>{_one('P')})'s (?:[\w-]+ ){{0,2}}?(?:friend|colleague|coworker|neighbou?r|cousin|brother|sister|wife|husband|partner|mentor|roommate|teammate)\b", "KNOWS", False),
        (rf"(?P<a>{_one('P')}) and (?P<b>{_one('P')}) (?:are (?:[\w-]+ ){{0,2}}(?:friends|colleagues|coworkers|married|siblings|neighbou?rs|cousins|brothers|sisters|roommates|partners)|know each other|work together|met )", "KNOWS", False),
        # Ana left Acme for Globex; leads the data team at Acme; tech lead of Atlas at Acme
        (rf"(?P<a>{_one('P')}) (?:left|quit) {_one('O')} (?:for|to join) (?P<b>{_one('O')})", "WORKS_FOR", False),
        (rf"(?P<a>{_one('P')}) (?:moved|switched) from {_one('O')} to (?P<b>{_one('O')})", "WORKS_FOR", False),
        (rf"(?P<a>{_list('P')})(?:,? who)? (?:now |also )?(?:leads?|heads?|manages?|runs?|joined|works? (?:in|on|with)|(?:is|are) (?:on|in|part of|a member of|members of)) (?:the |an? |our )?(?:{_one('O')} |(?:[\w-]+ ){{0,4}})(?:team|group|department|squad|division|office|lab) (?:at|of) (?P<b>{_one('O')})", "WORKS_FOR", False),
        (rf"(?P<a>{_one('P')}),? (?:is |was |as )?(?:the |a )?(?:[\w-]+ ){{1,4}}(?:of|for) (?:the )?{_one('OJ')}(?: {_NOUN})? (?:at|for) (?P<b>{_one('O')})", "WORKS_FOR", False),
        (rf"(?P<a>{_one('P')}) (?:leads?|heads?|manages?|runs) (?:the )?{_one('OJ')}(?: {_NOUN})? at (?P<b>{_one('O')})", "WORKS_FOR", False),
    )
)  # fmt: skip
_TOGETHER = re.compile(
    rf"{_one('PO')} (?P<verb>leads?|manages?|owns?|runs?|founded|co-?founded|started) (?:the )?(?P<b>{_list('JO')})(?: {_NOUN})?"
    rf" (?:together |jointly |along )?with (?P<a>{_one('P')})"
)
_TOGETHER_TYPES = {"l": "LEADS", "m": "MANAGES", "o": "OWNS", "f": "OWNS", "c": "OWNS", "s": "OWNS", "r": "LEADS"}


def _constructions(sentence: str) -> Iterator[Found]:
    """Relations that no verb between two lists says."""
    for pattern, kind, inverse in _CONSTRUCTIONS:
        for match in pattern.finditer(sentence):
            before = sentence[max(0, match.start() - 60) : match.start()].rpartition(". ")[2]
            if _BLOCK.search(match.group()) or _BLOCK.search(before[-40:]):
                continue
            relation = kind or _NOUNS_OF[match["noun"]]
            for a in _ids(match["a"]):
                for b in _ids(match["b"]):
                    yield (b, relation, a) if inverse else (a, relation, b)
    for match in _TOGETHER.finditer(sentence):
        if not _BLOCK.search(match.group()):
            for a in _ids(match["a"]):
                for b in _ids(match["b"]):
                    yield a, _TOGETHER_TYPES[match["verb"][0]], b

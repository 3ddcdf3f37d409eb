"""The grammar that relation patterns are written in: marks of entities, lists of them, and the words around.

An entity in a sentence is a mark such as `<P3>`: a letter for its type and its index.
"""

import re

NOUN = (
    r"(?:project|app|application|platform|service|repository|repo|team|group|department|squad|system|"
    r"initiative|"
    r"migration|module|library|package|codebase|product|tool|dashboard|rollout|client|backend|frontend|"
    r"website|"
    r"site|company|startup|server|pipeline|database|cluster|crew|guild|unit|office|API|frontends?|"
    r"services|apps|projects)"
)
ROLE = (
    r"(?:engineers?|designers?|managers?|CTO|CEO|CFO|COO|cto|ceo|cfo|coo|VP|vp|leads?|scientists?|interns?|"
    r"consultants?|developers?|architects?|analysts?|recruiters?|directors?|professors?|researchers?|"
    r"contacts?|reps?|"
    r"representatives?|employees?|president|officers?|accountants?|lawyers?|students?|administrators?|"
    r"advisors?|"
    r"programmers?|technicians?|writers?|editors?|nurses?|doctors?|teachers?|secretary|assistants?|chairman|"
    r"chairwoman|chair|board member|partners?|specialists?|testers?|supervisors?|sales ?(?:wo)?man|buyer)"
)
ADVERB = (
    r"(?:now|also|still|currently|mainly|mostly|primarily|both|all|only|officially|recently|already|"
    r"just|directly|"
    r"personally|usually|often|always|really|then|temporarily|today|since then|together|jointly|again|\w+ly)"
)
AUXILIARY = r"(?:is|are|was|were|been|being|be|has|have|had|will|going to|'s|does|do|did)"
HINDRANCE = (
    r"(?:not|n't|never|no longer|might|may|could|would|should|used to|previously|formerly|once|"
    r"(?:plans?|planned|wants?|wanted|hopes?|hoped|needs? to|tries|tried|refused|declined|failed|"
    r"intends?|considers?|"
    r"thinks? about|is considering|stopped|cannot|can't)(?: to)?|doesn't|don't|didn't|isn't|wasn't|"
    r"aren't|won't|"
    r"hasn't|haven't|hadn't)"
)
GAP = rf"(?:(?: |(?<=')){ADVERB}| {AUXILIARY}|'s| {HINDRANCE})*"
# "is a web app built with": a noun phrase between the subject and a participle.
IS_A = (
    rf"(?: (?:is|was|will be) (?:an? |the |our )(?:[\w-]+ ){{0,4}}?(?:{NOUN}|tool|bot|game|plugin|extension|"
    r"script))?"
)
PHRASE_WORD = (
    r"(?!(?:and|or|but|not|no|instead|than|of|for|from|to|in|on|at|with|by|less|how|what|why|that|which|"
    r"who|if|"
    r"whether|when|because|as|via|over|under|without|about|against|neither|either|nothing|is|are|"
    r"was)\b)[\w'-]+"
)
DETERMINER = rf"(?:{PHRASE_WORD} ){{0,4}}?"
VERSION = r"(?: v?\d[\d.x]*)?"
SEPARATOR = r"(?:,? and|,? or|,? &| plus|,|/| as well as| together with)"

BLOCK = re.compile(
    rf"\b(?:{HINDRANCE}|if|whether|unless|wonders?|doubts?|rumou?red|instead of|rather than|without|"
    rf"unsure|maybe|"
    r"perhaps|possibly|probably|rejected|against|ex|former|considering|asked)\b|n't\b",
    re.IGNORECASE,
)
NO_STATEMENT = re.compile(
    r"\s*(?:[-*•]\s*)?(?:(?:if|when|let|make|wish|should|unless|whether|maybe|perhaps|suppose|imagine|"
    r"what if)\b|"
    r"(?:does|do|did|is|are|was|were|will|can|could|would|has|have|who|what|which|why|how|where|"
    r"whose)\b(?! to\b))",
    re.IGNORECASE,
)
CONDITION = re.compile(
    r"\b(?:if|whether|unless|in case|assuming|suppose|rumou?r|instead of|wish|want|hope|let|almost|"
    r"nearly)\b[^<>]*$",
    re.IGNORECASE,
)
OVER = re.compile(r"[^<,.;]{0,12}\b(?:anymore|any more|any longer|not decided|until|till)\b")
POSSESSIVE = ("'s", "’s")
# "needs a Go developer": the technology only describes what is needed.
DESCRIBES = re.compile(
    r" (?:developers?|engineers?|experts?|experience|skills?|people|support|training|courses?|books?|"
    r"license|licence)\b"
)
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|;\s+")
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|approx|incl|resp)\.$")
LEADS_IT = re.compile(r"(<P\d+> (?:leads|manages|owns|runs)) it\b")
MARK = re.compile(r"<([A-Z])(\d+)>")


def one(types: str) -> str:
    """Pattern of one mark whose type letter is among `types`."""
    return rf"<[{types}]\d+>"


def list_of(types: str) -> str:
    """Pattern of one or more such marks: `<T1> 16, <T2> and the <T3>`."""
    item = one(types) + VERSION
    also = r"(?:the |a |an |both |also |our )?"
    # "runs Postgres on top of Kubernetes" uses both.
    separator = rf"(?:{SEPARATOR}| with| on top of| on)" if types == "T" else SEPARATOR
    return rf"{item}(?:(?: {NOUN})?{separator} {also}{item})*"


PARTICIPLE = re.compile(
    r"(?:based|located|headquartered|hosted|situated|built|written|rewritten|led|headed|managed|owned|"
    r"integrated|"
    r"connected|founded|created|made|developed|maintained|supervised|used|employed|implemented|powered|"
    r"backed|"
    r"deployed|run by|part of|an? |the |our )"
)

# "Ana, head of Marketing, …": a noun phrase beside its subject, not the verb of a clause.
NOMINAL = re.compile(
    rf"(?!(?:is|are|was|as|became|works?) )(?:[\w/-]+ )*?(?:{ROLE}|head|leaders?|founders?|owners?|"
    rf"creators?|authors?|"
    r"makers?|inventors?|boss|supervisor|part|members?|division|subsidiary|branch|component|module|unit|"
    r"friends?|colleagues?|brother|sister|cousins?) (?:of|at|in|for|with|on)"
)

PREFILTER = re.compile(r"<[A-Z]\d+>.*<[A-Z]\d+>", re.DOTALL)

ANY = "POJT"
LEFT = re.compile(
    rf"(?P<list>{list_of('POJTL')})(?: {NOUN})?(?: \([^)]*\))?(?P<comma>,| –| -|:)?"
    rf"(?P<isa>{IS_A})(?P<relative> (?:who|which|that))?(?P<gap>{GAP}) ?\(?$"
)
COORDINATION = re.compile(rf"(?:,? and then|,? and|,? but|,? then|,|,? or| before| after| by| while)(?P<gap>{GAP}) $")
# "the team of Ana uses": Ana is not the subject.
BELONGING = re.compile(r"\b(?:of|to|with|for|than|like) (?:the )?$")
RELATIVE = re.compile(rf"(?P<list>{list_of(ANY)}),? (?:who|which) ")
# "uses Slack for chat and Linear for planning"
ALSO_FOR = re.compile(
    rf"(?: (?:for|as|in) [\w -]{{1,30}}?)(?:,? and|,) (?:the )?(?P<list>{list_of('T')})(?= (?:for|as|in)\b)"
)
HEAD = re.compile(rf"^(?:[-*•] )?(?:[\w ]{{0,30}}: )?(?:[Tt]he |[Mm]y |[Oo]ur )?(?P<list>{list_of(ANY)})")

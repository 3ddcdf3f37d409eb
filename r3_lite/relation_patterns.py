"""How English says each relation: verb families and fixed constructions."""

import re
from dataclasses import dataclass, field

from r3_lite.relation_grammar import DETERMINER, NOUN, ROLE, list_of, one


@dataclass(frozen=True, slots=True)
class Family:
    """Verbs of one relation. `inverse`: the grammatical subject is the target (`Atlas is led by Ana`)."""

    type: str
    subjects: str
    verbs: str
    objects: str
    inverse: bool = False
    pattern: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        pattern = rf"(?<![\w<'-])(?P<verb>{self.verbs})(?P<det> {DETERMINER}| )(?P<objects>{list_of(self.objects)})"
        object.__setattr__(self, "pattern", re.compile(pattern))


FAMILIES = (
    Family(
        "WORKS_FOR",
        "P",
        r"works? (?:remotely |full[- ]time |part[- ]time |as an? [\w -]{2,30} )?(?:at|for)|working "
        r"(?:at|for)|"
        r"(?<=has )worked (?:at|for)|(?<=have )worked (?:at|for)|joined|joins?|(?:is |are )?joining|"
        r"interns? (?:at|for)|"
        r"(?:is |are )?employed (?:at|by)|(?:just |recently )?(?:started|starts) (?:working )?(?:at|for)|"
        r"got (?:a job|hired|an internship) (?:at|by)|(?:is |was )?(?:hired|recruited) by|works? in|got "
        r"promoted at|consults for|freelances for|teaches at|"
        r"studies at|(?:is |are )?on",
        "O",
    ),
    Family(
        "WORKS_FOR",
        "P",
        rf"(?:is |are |was |as |became )?(?:an? |the |our |my |their )?(?:[\w/-]+ ){{0,3}}?{ROLE} "
        rf"(?:at|in|of|for|with|on)",
        "O",
    ),
    Family(
        "LEADS",
        "PO",
        r"leads?|led|leading|heads?(?: up)?|headed|heading|(?:is |are |was )?(?:the |a )?(?:[\w-]+ )?"
        r"(?:lead|leader|head) (?:of|on|for)|(?:is )?in charge of|spearheads|runs point on|heads up",
        "JO",
    ),
    Family(
        "MANAGES",
        "PO",
        r"manages?|managed|managing|supervises?|supervising|oversees?|overseeing|"
        r"(?:is |are |was )?(?:the |a )?(?:(?!account|office|product)[\w-]+ )?manager (?:of|for)|"
        r"(?:is )?(?:the )?(?:boss|supervisor) of",
        "PJO",
    ),
    Family(
        "REPORTS_TO",
        "PO",
        r"reports? (?:directly )?to|reporting (?:directly )?to|reported to|answers to",
        "P",
    ),
    Family(
        "USES",
        "POJT",
        r"uses?|using|used|utili[sz]es?|leverages?|adopted|adopts|runs? on(?: top of)?|runs?|running on|"
        r"switched to|"
        r"migrated to|moved to|standardi[sz]ed on|relies heavily on using|(?:is |are )?(?:powered|backed) by|"
        r"(?:is |are |was )?(?:deployed|hosted) (?:on|to)",
        "T",
    ),
    Family(
        "BUILT_WITH",
        "JT",
        r"(?:mostly |mainly |originally |entirely |partly )?(?:built|written|rewritten|created|"
        r"developed|implemented|"
        r"coded|made|programmed) (?:with|using|on top of|on|in|from)",
        "T",
    ),
    Family(
        "OWNS",
        "PO",
        r"owns?|owned|founded|co-?founded|started|created|creates|makes|made|acquired|acquires|bought|"
        r"builds?|built|"
        r"develops?|developed|wrote|invented|designed|authored|launched|"
        r"(?:is |are |was )?(?:the |a |one of the )?(?:co-?)?(?:founders?|owners?|creators?|authors?|"
        r"makers?|inventors?) of",
        "JOT",
    ),
    Family(
        "LOCATED_IN",
        "POJ",
        r"lives? in|living in|(?:is |are )?(?:located|based|headquartered|hosted|situated|headquarters) "
        r"(?:in|at|out of)|"
        r"moved to|relocated to|(?:has|have|opened|runs|keeps|maintains) (?:[\w-]+ ){0,3}?(?:offices?|"
        r"headquarters|labs?) in|"
        r"resides in|operates (?:in|from)|runs in|works (?:remotely )?(?:from|in|out of)|settled in",
        "L",
    ),
    Family(
        "PART_OF",
        "POJT",
        r"(?:is |are )?(?:an? |the )?(?:[\w-]+ )?(?:part|members?|division|subsidiary|branch|component|"
        r"module|unit|"
        r"subproject|department|submodule|plugin) of|belongs? to|sits (?:within|under|in)|falls under",
        "OJ",
    ),
    Family(
        "KNOWS",
        "P",
        r"knows?|met|(?:is |are )?(?:an? |the )?(?:[\w-]+ )?(?:friends?|colleagues?|acquaintances?|"
        r"buddy|buddies|"
        r"coworkers?|neighbou?rs?|cousins?|brother|sister|mentor|partner|husband|wife) (?:of|with)|"
        r"(?:is |are |got )?married to|"
        r"works? (?:closely |together )?(?:with|alongside)|collaborates? (?:closely )?with|mentors?|"
        r"lives with|(?:is |are )?friends with|sits next to|pairs with",
        "P",
    ),
    Family(
        "DEPENDS_ON",
        "JT",
        r"depends? (?:heavily )?(?:up)?on|depending on|requires?|required|rel(?:ies|y|ied) (?:heavily "
        r")?on|needs?",
        "JT",
    ),
    Family(
        "INTEGRATES_WITH",
        "JTO",
        r"integrates? (?:well )?with|integrated (?:with|into)|connects? (?:to|with)|connected (?:to|with)|"
        r"syncs? (?:to|with)|talks to|hooks into|interfaces with|plugs into|communicates with",
        "TJO",
    ),
    Family(
        "RELATED_TO",
        "POJT",
        r"(?:is |are )?(?:closely )?(?:related|linked|tied) to|relates to|(?:is |are )?associated with",
        "POJT",
    ),
    Family("MANAGES", "PJO", r"(?:managed|supervised|overseen) by", "PO", inverse=True),
    Family("LEADS", "JO", r"(?:led|headed|run|spearheaded) by", "PO", inverse=True),
    Family(
        "OWNS",
        "JOT",
        r"(?:owned|founded|co-?founded|started|created|made|built|developed|acquired|bought|written|"
        r"designed|invented|"
        r"authored) by",
        "PO",
        inverse=True,
    ),
    Family("USES", "T", r"used by", "POJ", inverse=True),
    Family("WORKS_FOR", "O", r"hired|hires|employs|recruited", "P", inverse=True),
    Family("DEPENDS_ON", "JT", r"(?:required|needed) by", "JT", inverse=True),
)
NOUNS_OF = {
    "head": "LEADS",
    "lead": "LEADS",
    "leader": "LEADS",
    "owner": "OWNS",
    "founder": "OWNS",
    "manager": "MANAGES",
}

# Each: pattern with groups a and b, and what it says. `None`: decided by the matched noun.
CONSTRUCTIONS: tuple[tuple[re.Pattern[str], str | None, bool], ...] = tuple(
    (re.compile(pattern), kind, inverse)
    for pattern, kind, inverse in (
        # Ana from Acme
        (
            rf"(?P<a>{one('P')}) (?:from|in|of|over at) (?:the )?(?P<b>{one('O')})(?! office| event| "
            rf"conference)",
            "WORKS_FOR",
            False,
        ),
        (rf"(?P<a>{one('P')}) \((?P<b>{one('O')})\)", "WORKS_FOR", False),
        (
            rf"(?:[Aa]sk|[Ee]mail|[Cc]all|[Cc]ontact|[Pp]ing|[Tt]ell|[Mm]essage) (?P<a>{one('P')}) at "
            rf"(?P<b>{one('O')})",
            "WORKS_FOR",
            False,
        ),
        # Acme's CTO Ana; Acme CTO Ana; the CTO of Acme is Ana
        (
            rf"(?P<a>{one('O')})(?:'s)? (?:[\w-]+ ){{0,2}}?{ROLE},? (?:is "
            rf")?(?P<b>{one('P')})",
            "WORKS_FOR",
            True,
        ),
        (rf"\b{ROLE} (?:of|at|for) (?P<a>{one('O')})(?:,| is|:) (?P<b>{one('P')})", "WORKS_FOR", True),
        (
            rf"\b(?P<noun>head|lead|leader|owner|founder|manager) (?:of|for) (?:the "
            rf")?(?P<a>{one('OJ')})(?: {NOUN})?(?:,| is|:) (?P<b>{one('P')})",
            None,
            True,
        ),
        # the CTO at Acme, Ana; led by Acme's Ana
        (rf"(?P<a>{one('O')})'s (?P<b>{one('P')})", "WORKS_FOR", True),
        # works on Atlas with Go; we use Go for Atlas
        (
            rf"(?:works?|working|worked) on (?:the )?(?P<a>{list_of('J')})(?: {NOUN})? (?:with|using|in) "
            rf"(?P<b>{list_of('T')})",
            "USES",
            False,
        ),
        (
            rf"\b(?:use|uses|adopted|chose|picked|introduced) (?P<b>{list_of('T')}) (?:for|in|on) (?:the "
            rf")?(?P<a>{list_of('J')})",
            "USES",
            False,
        ),
        (
            rf"^[Ff]or (?:the )?(?P<a>{list_of('J')})(?: {NOUN})?,? (?:we|they|I) (?:now )?use "
            rf"(?P<b>{list_of('T')})",
            "USES",
            False,
        ),
        (
            rf"(?:migrated|moved|switched|ported) (?:the )?(?P<a>{list_of('J')})(?: {NOUN})?(?: (?:over|"
            rf"away))?(?: from {list_of('T')})? to (?P<b>{list_of('T')})",
            "USES",
            False,
        ),
        (
            rf"(?P<a>{list_of('POJT')})(?: {NOUN})? (?:was |were |has been |has |have )?(?:switched|"
            rf"migrated|moved|ported) from {list_of('T')} to (?P<b>{list_of('T')})",
            "USES",
            False,
        ),
        # wrote Atlas in Go
        (
            rf"(?:[Bb]uild|[Bb]uilds|built|building|wrote|write|writes|writing|written|rewrote|rewriting|"
            rf"developed|develops|created|implemented|prototyped) (?:the |a |an |our "
            rf")?(?P<a>{list_of('J')})(?: {NOUN})? (?:with|using|in|on top of) "
            rf"(?P<b>{list_of('T')})",
            "BUILT_WITH",
            False,
        ),
        (
            rf"(?P<a>{list_of('J')})(?: {NOUN})? (?:was|were|has been|got) (?:rewritten|ported|converted) "
            rf"from {list_of('T')} (?:to|in|into) (?P<b>{list_of('T')})",
            "BUILT_WITH",
            False,
        ),
        (
            rf"[Ii]ntegration (?:between|of) (?P<a>{one('JTO')}) (?:and|with|into) "
            rf"(?P<b>{one('JTO')})",
            "INTEGRATES_WITH",
            False,
        ),
        # Acme, a small studio in Lisbon; Lisbon-based Acme
        (
            rf"(?P<a>{one('OP')}), (?:(?:an?|the) (?:[\w-]+ ){{1,5}}?)?(?:based |located )?(?:in|from) "
            rf"(?P<b>{one('L')})",
            "LOCATED_IN",
            False,
        ),
        (
            rf"(?P<a>{one('O')}) is (?:an?|the|our) (?:[\w-]+ ){{1,5}}?(?:based )?(?:in|from) "
            rf"(?P<b>{one('L')})",
            "LOCATED_IN",
            False,
        ),
        (rf"(?P<b>{one('L')})[- ]based (?:[\w-]+ ){{0,2}}(?P<a>{one('O')})", "LOCATED_IN", False),
        # Ana's manager is Bo; Bo is Ana's manager
        (
            rf"(?P<a>{one('PO')})'s (?:new |direct |line )?(?:manager|boss|supervisor|lead) is (?:now "
            rf")?(?P<b>{one('P')})",
            "REPORTS_TO",
            False,
        ),
        (
            rf"(?P<b>{one('P')}) is (?:now )?(?P<a>{one('P')})'s (?:new |direct |line )?(?:manager|boss|"
            rf"supervisor)",
            "REPORTS_TO",
            False,
        ),
        (
            rf"(?P<a>{one('P')}) is (?P<b>{one('P')})'s (?:[\w-]+ ){{0,2}}?(?:friend|colleague|coworker|"
            rf"neighbou?r|cousin|brother|sister|wife|husband|partner|mentor|roommate|"
            rf"teammate)\b",
            "KNOWS",
            False,
        ),
        (
            rf"(?P<a>{one('P')}) and (?P<b>{one('P')}) (?:are (?:[\w-]+ ){{0,2}}(?:friends|colleagues|"
            rf"coworkers|married|siblings|neighbou?rs|cousins|brothers|sisters|roommates|partners)|know "
            rf"each other|work together|met )",
            "KNOWS",
            False,
        ),
        # Ana left Acme for Globex; leads the data team at Acme; tech lead of Atlas at Acme
        (
            rf"(?P<a>{one('P')}) (?:left|quit) {one('O')} (?:for|to join) "
            rf"(?P<b>{one('O')})",
            "WORKS_FOR",
            False,
        ),
        (
            rf"(?P<a>{one('P')}) (?:moved|switched) from {one('O')} to "
            rf"(?P<b>{one('O')})",
            "WORKS_FOR",
            False,
        ),
        (
            rf"(?P<a>{list_of('P')})(?:,? who)? (?:now |also )?(?:leads?|heads?|manages?|runs?|joined|works? "
            rf"(?:in|on|with)|(?:is|are) (?:on|in|part of|a member of|members of)) (?:the |an? |our "
            rf")?(?:{one('O')} |(?:[\w-]+ ){{0,4}})(?:team|group|department|squad|division|office|lab) "
            rf"(?:at|of) (?P<b>{one('O')})",
            "WORKS_FOR",
            False,
        ),
        (
            rf"(?P<a>{one('P')}),? (?:is |was |as )?(?:the |a )?(?:[\w-]+ ){{1,4}}(?:of|for) (?:the "
            rf")?{one('OJ')}(?: {NOUN})? (?:at|for) (?P<b>{one('O')})",
            "WORKS_FOR",
            False,
        ),
        (
            rf"(?P<a>{one('P')}) (?:leads?|heads?|manages?|runs|works in|works on) (?:the "
            rf")?{one('OJ')}(?: {NOUN})? at (?P<b>{one('O')})",
            "WORKS_FOR",
            False,
        ),
    )
)
TOGETHER = re.compile(
    rf"{one('PO')} (?P<verb>leads?|manages?|owns?|runs?|founded|co-?founded|started) (?:the "
    rf")?(?P<b>{list_of('JO')})(?: {NOUN})?"
    rf" (?:together |jointly |along )?with (?P<a>{one('P')})"
)
TOGETHER_TYPES = {
    "l": "LEADS",
    "m": "MANAGES",
    "o": "OWNS",
    "f": "OWNS",
    "c": "OWNS",
    "s": "OWNS",
    "r": "LEADS",
}

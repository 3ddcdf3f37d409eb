"""English words by what they do in a sentence, as far as it decides whether two wordings say the same. Pure data.

Lists of what is harmless are kept narrow, lists of what is dangerous wide: what is missing costs a merge, not a fact.
In other languages hardly anything matches, and texts are compared as they stand.
"""


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Denials, and whatever sets the bounds of a statement: behind one of them an intensifier is part of the condition.
DENIALS = _set(
    "not no never nor none nobody nothing nowhere neither without cannot hardly barely scarcely rarely seldom "
    "isn aren wasn weren don doesn didn won wouldn shouldn couldn can't ain unable refuse refuses refused lack "
    "lacks fail failed"
)
LIMITS = DENIALS | _set(
    "only if unless whether until till than too enough least less more most might may maybe perhaps probably "
    "possibly seem seems apparently allegedly supposedly doubt doubts wonder wonders except whenever wherever "
    "whoever almost nearly as rather"
)
SUBJECTS = _set("i you we they he she it")
PERSONS = _set("he she they him her them his hers their theirs himself herself themselves who whose")
COPULAS = _set("is are am was were be been being feel feels felt feeling look looks looked sound sounds sounded")
# Opinions: how strongly one is held is no fact. Sizes, ages, risks, amounts and the like are not among them.
OPINIONS = _set(
    "happy glad excited proud awesome great amazing cool nice sweet peaceful serene relaxing refreshing "
    "inspiring inspired encouraging motivating motivated powerful important helpful interesting fun beautiful "
    "gorgeous stunning lovely wonderful fantastic incredible impressive touching thoughtful kind grateful "
    "thankful thrilled pumped hyped stoked nervous lucky blessed rewarding fulfilling meaningful special cute "
    "adorable delicious tasty yummy cozy creative loyal smart talented passionate supportive encouraged "
    "embarrassing embarrassed exciting enjoyable satisfying soothing calming charming pleasant fascinating "
    "pleased delighted honored touched moving good easy rough tough bad sad sorry awful terrible frustrating "
    "uplifting immersive funny hilarious brave magical comfy cozy heartwarming enlightening wholesome tranquil chill "
    "precious perfect valuable worthwhile dedicated determined hopeful curious eager anxious worried tired exhausted "
    "stressed unique genuine generous elegant neat epic wild crazy insane weird strange surprising surprised amazed "
    "shocked overwhelmed relieved refreshing cathartic graceful frustrated "
    "annoying annoyed boring bored disappointed disappointing"
)
# Behind "so" and "very" these are quantities, certainties or other words: "so far", "very likely".
GRADED = _set(
    "sure certain likely unlikely possible impossible probable few little much many far long late early soon "
    "called then there what that the a an i it we you they he she this these those my your his her our their "
    "close near much-needed well like different same first last next only"
)
# What "really" goes with without adding anything.
FEELINGS = _set(
    "like likes liked love loves loved enjoy enjoys enjoyed appreciate appreciates hope miss misses missed "
    "help helps helped mean means matter matters care cares want wants wanted respect admire adore inspire "
    "inspires motivate motivates make makes change changes hit hits pay pays stand stands ground grounds calm "
    "calms boost boosts recommend into pushing"
)
SPEECH = _set(
    "say says said tell tells told ask asks asked write writes wrote written reply replies replied answer "
    "answered claim claims claimed think thinks thought know knows knew believe believes believed see sees saw "
    "hear hears heard feel feels felt guess hope hopes hoped wish wishes wished swear swore suppose supposed "
    "assume assumed understand understood sure sorry shouted shout read reads quote quotes quoted dream "
    "dreamed imagine bet promise promised remember notice noticed suspect doubt worry afraid admit admitted "
    "deny denied"
)
INTERJECTIONS = _set(
    "wow whoa woah yeah yep yup mmm yay woohoo yikes omg lol hmm anytime thanks hey hi hello cool great "
    "awesome congrats congratulations sure alright ok okay oh phew yum agreed agree absolutely definitely "
    "certainly nice sweet bye ttyl well haha aw aww ooh oof cheers exactly indeed"
)
# Other words that a comma may follow at the beginning.
ADVERBS = _set(
    "also plus anyway however therefore meanwhile honestly basically fortunately unfortunately luckily sadly "
    "obviously finally currently today yesterday tomorrow"
)
# How a comment goes on, or begins without one of these: it speaks to somebody and states no fact.
COMPLIMENTS = _set("thank thanks congrats congratulations glad happy love appreciate welcome sorry")
# Those of them that can answer a question.
ANSWERS = _set(
    "yes no yeah yep nope nah sure ok okay absolutely definitely certainly exactly agreed maybe perhaps "
    "probably never always sometimes alright totally indeed because possibly surely"
)
# Whole sentences that say nothing but "I have heard you".
PHRASES = frozenset(
    "for sure|no worries|no problem|go for it|what about you|how about you|way to go|trust me|"
    "nice one|got it|good luck|of course|oh no|keep it up|keep me updated|keep going|have fun|"
    "take care|let me know|good job|great job|well done|talk to you soon|talk to you later|"
    "see you soon|see you later|have a great day|sounds good|sounds great|"
    "enjoy|rock on|you got this|hope you like it|same here|me too".split("|")
)
QUESTION_WORDS = _set("what how where why when who whose which what's how's where's why's when's who's how'd")
# A sentence with one of these hangs on what stands before it, or says when something happened or holds.
SEQUENCE = _set(
    "then next first firstly second secondly third thirdly finally lastly later afterwards afterward "
    "before now until meanwhile instead however therefore thus hence "
    "consequently otherwise again yet else former latter either neither previously "
    "previous following above below correction update updated longer anymore except unless initially "
    "originally eventually already formerly once newer older"
)
# As the first word of a sentence.
CONNECTIVES = _set("and or but so because if unless not nor than though although while whereas which who also plus too")
# Words at the end of which a sentence leaves out what another one said.
ELLIPSIS = _set("did does do is are was were has have had will would can could should so not either")
PAST = _set(
    "went came left met got made took gave found told said saw bought sold began started ate drank drove flew "
    "wrote read sent built broke lost won ran fell woke slept paid put quit rose sang spoke stood thought "
    "threw wore knew kept led held heard grew forgot felt became brought caught chose cut did had hit hurt let "
    "shut spent hung set taught understood shipped"
)
SUBJECT_OPENINGS = SUBJECTS | _set(
    "here here's this that these those there the a an my your our his her their its some any every each i'm "
    "i've i'll i'd it's that's there's we're we've we'll they're they've they'll he's she's you're you've "
    "you'll let's"
)
# Behind these "some" names no share of what there is: "have some fun" has no more of it than "have fun".
VAGUE = _set(
    "have has had having make makes made making get gets got getting took taking "
    "with for from about find found give gives gave giving bring met meet do did doing try tried share shared sharing "
    "here's helping up down out me you him her us them spend spent"
)
# Anywhere in a sentence these say that something else holds, or held.
TURNS = _set(
    "agree disagree true false wrong incorrect untrue lie nonsense "
    "instead otherwise anymore longer former latter previous previously formerly "
    "else above below update updated correction originally initially later afterwards"
)

"""Notes of the kind that assistants are told to remember, and questions about them: made up, endless, repeatable."""

import random
from collections.abc import Sequence

_NAMES = (
    "Ada Ben Chiara Dmitri Elif Farid Greta Hana Ivo Jun Karin Leila Marco Nadia Oskar Priya Quentin Rosa Sven Tariq "
    "Uma Viktor Wanda Ximena Yusuf Zoe Amara Bastian Celine Diego Esther Fynn"
).split()
_THINGS = (
    "billing service, search index, mobile app, onboarding page, data pipeline, garden shed, spare room, invoice "
    "template, release script, backup job, test cluster, weekly report, login form, payment gateway, photo archive, "
    "kitchen, bicycle, heating, budget sheet, customer portal, newsletter, training plan, sensor firmware, wiki, "
    "monitoring dashboard, mail server, translation, design system, warehouse scanner, booking calendar"
).split(", ")
_TOOLS = (
    "PostgreSQL, Redis, Kafka, Terraform, FastAPI, Django, Rust, TypeScript, Grafana, Ansible, DuckDB, Kubernetes, "
    "GitLab, Figma, Blender, LaTeX, Excel, Home Assistant, Nix, Elixir, Svelte, SQLite, RabbitMQ, OpenTelemetry"
).split(", ")
_PLACES = (
    "Lisbon, Oslo, Kyoto, Graz, Porto, Leeds, Turin, Bergen, Ghent, Nairobi, Denver, Quito, Tallinn, Lyon, Utrecht, "
    "Basel, Cork, Malmö, Seville, Gdansk, the office, the cabin, the library, the workshop, the clinic"
).split(", ")
_FOODS = (
    "peanuts, oat milk, sourdough, green tea, lentil soup, shellfish, dark chocolate, espresso, rye bread, mango, "
    "sushi, goat cheese, mushrooms, ginger, black beans, pancakes"
).split(", ")
_HOBBIES = (
    "climbing, pottery, chess, sailing, choir practice, night photography, bread baking, trail running, woodworking, "
    "birdwatching, fencing, watercolours, astronomy, salsa, beekeeping, long-distance cycling"
).split(", ")
_REASONS = (
    "because the old one kept timing out, after the audit found gaps, since the vendor raised its prices, to keep the "
    "release date, because two customers asked for it, as the doctor advised, so that nights are quiet again, to save "
    "about a third of the cost, because the documentation was out of date, after the flood in the basement, since the "
    "team doubled, to get rid of manual steps, because the warranty ends soon"
).split(", ")
# Invented names, thousands of them: real stores have a long tail of words that occur once or twice.
_SYLLABLES = (
    "ba bel bro cal cor dan del dor fal fen gar gri hal hol jas kel kor lan lor mal mer nor nov oss pel pra ran ros "
    "sal sen tam ter thal tor ulm val ver wen wil yor zan zel"
).split()
_ENDINGS = "a e ix o sen ström ley ton ara ius by ek".split()
_MONTHS = "January February March April May June July August September October November December".split()

_NOTES = (
    "{name} prefers {tool} over {tool2} for the {thing} {reason}.",
    "The {thing} moves to {place} on {day} {month} {year}; {name} is in charge.",
    "{name} is allergic to {food} and orders {food2} instead.",
    "We decided to rewrite the {thing} in {tool} {reason}. The budget is {number} euros.",
    "{name} does {hobby} every {weekday} at {hour} and cannot be reached then.",
    "The {thing} talks to {tool} on port {port}; the timeout is {small} seconds.",
    "Order {number} for the {thing} was delivered to {place}. {name} signed for it.",
    "{name} met {name2} in {place} on {day} {month} {year} to talk about the {thing}.",
    "Never restart the {thing} before {hour}: {name} runs the {tool} export at that time.",
    "The trip to {place} costs {number} euros per person. {name} books the train, {name2} the rooms.",
    "{name} passed the {tool} exam with {small} points and wants to try {hobby} next.",
    "Ticket {port}: the {thing} crashes when {tool} returns more than {number} rows. Fixed by {name} {reason}.",
    "{name}'s birthday is on {day} {month}; last year the present was a book about {hobby}.",
    "My sister {name} lives in {place}, works with {tool} and has {small} cats.",
    "Keep the {thing} on {tool} version {small}.{hour_number} {reason}.",
    "For dinner with {name} on {weekday}: {food}, {food2}, no {food3}.",
    "{name} {surname} from {firm} called about the {firm2} contract; she wants an answer by {weekday}.",
    "The passphrase hint for the {firm} vault is the street where {name} grew up.",
    "{firm} replaced {firm2} as our supplier {reason}.",
    "Dr {surname} lowered the dose to {small} mg; the next appointment is on {day} {month} at {hour}.",
    "{name} plays in a band called {firm}. They rehearse in {place}.",
    "I read {firm} by {name} {surname} and liked the ending less than the first part.",
    "The car goes to {surname} for inspection every {month}; ask for {name}.",
    "{name}'s dog is called {firm} and is afraid of thunder.",
    "Our landlord, Mr {surname}, allows {hobby} on the balcony but no barbecue.",
    "Interview with {name} {surname} went well: strong in {tool}, little experience with {tool2}.",
    "Rename {firm} to {firm2} in every slide before the {month} board meeting.",
    "Flight {number} to {place} leaves at {hour}, seat {small}C, booked under {surname}.",
    "{name} thinks that {firm} will be sold to {firm2} before {year}.",
    "The wifi at {surname}'s place is slow, so bring the {firm} recordings offline.",
    "Grandmother {surname} bakes with {food} and never with {food2}.",
    "Since {month} {year} I wake up at {hour} and start with {hobby}.",
    "Paint for the hallway: {firm} number {port}, two coats, {small} litres.",
    "{name} owes me {number} crowns for the {hobby} course.",
    "My locker code at the {hobby} club in {place} starts with {small}.",
    "Quote from {firm}: {number} euros for the {thing}, valid until {day} {month}.",
)
_QUESTIONS = (
    "Which tool does {name} prefer for the {thing}?",
    "When does the {thing} move to {place}?",
    "What is {name} allergic to?",
    "Why did we rewrite the {thing} in {tool}?",
    "When does {name} do {hobby}?",
    "On which port does the {thing} talk to {tool}?",
    "Who signed for order {number} in {place}?",
    "What did {name} and {name2} talk about in {place}?",
    "How much does the trip to {place} in {month} cost?",
    "Who fixed the crash of the {thing} with {tool}?",
    "What should I cook for {name} on {weekday}, {food} or {food2}?",
    "Where does the sister with {small} cats live, {place}?",
    "Who from {firm} called about the contract?",
    "What did Dr {surname} change about the dose?",
    "Why was {firm} replaced as a supplier?",
    "How did the interview with {name} {surname} go?",
    "When does the flight to {place} leave?",
    "Which paint did we use for the hallway, {firm}?",
)
# A note and the question that it answers, asked in other words. What tells the note from the others is a name or a
# number here, and nothing but the matter itself there.
_PAIRS = (
    ("{name} {surname} is allergic to {food} and orders {food2} instead.", "What must {name} {surname} not eat?"),
    ("{firm} replaced {firm2} as our supplier {reason}.", "Whom do we buy from since {firm2} is out?"),
    (
        "Dr {surname} lowered the dose to {small} mg.",
        "How much of the medicine am I supposed to take according to {surname}?",
    ),
    ("{name} plays in a band called {firm}. They rehearse in {place}.", "Where does the music group {firm} practise?"),
    (
        "Flight {number} to {place} leaves at {hour}, seat {small}C, booked under {surname}.",
        "At what time do {surname} and I take off?",
    ),
    ("{name}'s dog is called {firm} and is afraid of thunder.", "What scares the pet {firm}?"),
    (
        "Our landlord, Mr {surname}, allows {hobby} on the balcony but no barbecue.",
        "May we grill outside at {surname}'s?",
    ),
    (
        "Paint for the hallway: {firm} number {port}, two coats, {small} litres.",
        "Which colour of {firm} did we use on the corridor walls?",
    ),
    (
        "The {thing} talks to {tool} on port {port}; the timeout is {small} seconds.",
        "After how long does the connection from the {thing} to {tool} give up?",
    ),
    (
        "We decided to rewrite the {thing} in {tool} {reason}. The budget is {number} euros.",
        "How much money may moving the {thing} to {tool} take?",
    ),
    ("{name} does {hobby} every {weekday} at {hour} and cannot be reached then.", "When is {name} away for {hobby}?"),
    (
        "Never restart the {thing} before {hour}: {name} runs the {tool} export at that time.",
        "Why should I leave the {thing} running until the {tool} dump of {name} is through?",
    ),
    (
        "The trip to {place} costs {number} euros per person. {name} books the train, {name2} the rooms.",
        "Who of us takes care of hotels in {place}, {name} or {name2}?",
    ),
    (
        "{name} passed the {tool} exam with {small} points and wants to try {hobby} next.",
        "How well did {name} do in the {tool} test?",
    ),
    (
        "My sister {name} lives in {place}, works with {tool} and has {small} cats.",
        "How many pets does {name} keep in {place}?",
    ),
    (
        "The {thing} moves to {place} on {day} {month} {year}; {name} is in charge.",
        "Who is responsible for relocating the {thing} to {place} in {year}?",
    ),
)
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def notes(count: int, seed: int = 0) -> list[str]:
    """Return distinct notes of one or two sentences, the same ones for the same seed."""
    return _distinct(_NOTES, count, random.Random(seed), most=2)


def questions(count: int, seed: int = 0) -> list[str]:
    """Return distinct questions about such notes, the same ones for the same seed."""
    return _distinct(_QUESTIONS, count, random.Random(f"questions {seed}"), most=1)


def pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Return distinct notes, each with a question in other words that it answers, the same ones for the same seed.

    Both have the same names and numbers. Some questions have more than one good answer in a large store.
    """
    rng = random.Random(f"pairs {seed}")
    made: dict[str, str] = {}
    while len(made) < count:
        note, question = _fill("\n".join(rng.choice(_PAIRS)), rng).split("\n")
        made.setdefault(note, question)
    return list(made.items())


def _distinct(patterns: Sequence[str], count: int, rng: random.Random, most: int) -> list[str]:
    made: dict[str, None] = {}
    while len(made) < count:
        made[" ".join(_fill(rng.choice(patterns), rng) for _ in range(rng.randint(1, most)))] = None
    return list(made)


def _fill(pattern: str, rng: random.Random) -> str:
    name, name2 = _skewed(_NAMES, 2, rng)
    tool, tool2 = _skewed(_TOOLS, 2, rng)
    food, food2, food3 = _skewed(_FOODS, 3, rng)
    return pattern.format(
        name=name,
        name2=name2,
        tool=tool,
        tool2=tool2,
        food=food,
        food2=food2,
        food3=food3,
        surname=_invented(rng),
        firm=_invented(rng),
        firm2=_invented(rng),
        thing=_skewed(_THINGS, 1, rng)[0],
        place=_skewed(_PLACES, 1, rng)[0],
        hobby=rng.choice(_HOBBIES),
        reason=rng.choice(_REASONS),
        month=rng.choice(_MONTHS),
        weekday=rng.choice(_WEEKDAYS),
        day=rng.randint(1, 28),
        year=rng.randint(2019, 2026),
        hour=f"{rng.randint(0, 23)}:{rng.choice(('00', '15', '30', '45'))}",
        hour_number=rng.randint(0, 23),
        number=rng.randint(100, 99_999),
        port=rng.randint(1024, 65_535),
        small=rng.randint(2, 90),
    )


def _invented(rng: random.Random) -> str:
    """Return a name of two syllables and an ending, some far more often than others; about 20,000 exist."""
    first, second = (_SYLLABLES[int(len(_SYLLABLES) * rng.random() ** 1.5)] for _ in range(2))
    return (first + second + rng.choice(_ENDINGS)).capitalize()


def _skewed(words: Sequence[str], count: int, rng: random.Random) -> list[str]:
    """Return distinct words, the first ones far more often than the last, as in real text."""
    chosen: dict[str, None] = {}
    while len(chosen) < count:
        chosen[words[int(len(words) * rng.random() ** 2)]] = None
    return list(chosen)

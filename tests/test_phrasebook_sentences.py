"""Whole sentences against German written by hand: the grammar is built from fixed choices and must say exactly this."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman.phrasebook import frames
from dragoman.phrasebook.frames import Sentence
from dragoman.phrasebook.numerals import clock
from dragoman.phrasebook.phrases import IT, Both, prepositional
from dragoman.phrasebook.words import Words
from phrasebook_words import noun, phrase, say

TODAY, EVERY_DAY = "today = heute", "every day = jeden Tag"
YESTERDAY, TOMORROW = "yesterday = gestern", "tomorrow = morgen"
THAT, WHETHER, WHERE, WHY = (
    Words(*p) for p in (("that", "dass"), ("whether", "ob"), ("where", "wo"), ("why", "warum"))
)
WHEN = Words("when", "wann")


def spot(en: str, de: str, case: str, text: str) -> Words:
    return prepositional(en, de, case, noun(text))


def s(*args: object, **named: object) -> Sentence:
    return frames.statement(say(*args, **named))  # type: ignore[arg-type]


def f(*args: object, **named: object) -> Sentence:
    return frames.fronted(say(*args, **named))  # type: ignore[arg-type]


def q(*args: object, **named: object) -> Sentence:
    return frames.yes_no(say(*args, **named))  # type: ignore[arg-type]


STATEMENTS = [
    # tenses: German has fewer
    (s("the man", "read", "the book"), "The man reads the book.", "Der Mann liest das Buch."),
    (s("she", "read", "a letter", "progressive"), "She is reading a letter.", "Sie liest einen Brief."),
    (s("they", "buy", "a car", "past"), "They bought a car.", "Sie haben ein Auto gekauft."),
    (s("I", "buy", "a car", "perfect"), "I have bought a car.", "Ich habe ein Auto gekauft."),
    (s("you", "visit", "Anna", "future"), "You will visit Anna.", "Sie werden Anna besuchen."),
    (s("we", "have", "a dog", "past"), "We had a dog.", "Wir hatten einen Hund."),
    (s("he", "know", "my aunt", "past"), "He knew my aunt.", "Er kannte meine Tante."),
    (s("the girl", "run", tense="past"), "The girl ran.", "Das Mädchen ist gelaufen."),
    # case government
    (s("the boy", "help", "the teacher"), "The boy helps the teacher.", "Der Junge hilft dem Lehrer."),
    (s("we", "thank", "our parents", "past"), "We thanked our parents.", "Wir haben unseren Eltern gedankt."),
    (
        s("the boys", "wait for", "the old bus", "progressive"),
        "The boys are waiting for the old bus.",
        "Die Jungen warten auf den alten Bus.",
    ),
    (s("Anna", "think of", "the exam"), "Anna thinks of the exam.", "Anna denkt an die Prüfung."),
    (s("the book", "belong to", "she"), "The book belongs to her.", "Das Buch gehört ihr."),
    # separable verbs
    (s("he", "call", "the doctor"), "He calls the doctor.", "Er ruft den Arzt an."),
    (s("he", "call", "the doctor", "past"), "He called the doctor.", "Er hat den Arzt angerufen."),
    (s("I", "turn on", "the lamp"), "I turn on the lamp.", "Ich schalte die Lampe ein."),
    (s("Peter", "pick up", "she", "progressive"), "Peter is picking her up.", "Peter holt sie ab."),
    (
        s("they", "take part in", "the course", "past"),
        "They took part in the course.",
        "Sie haben am Kurs teilgenommen.",
    ),
    # reflexive verbs
    (s("I", "remember", "the film"), "I remember the film.", "Ich erinnere mich an den Film."),
    (s("we", "hurry", tense="past"), "We hurried.", "Wir haben uns beeilt."),
    (
        s("the child", "be afraid of", "the dog"),
        "The child is afraid of the dog.",
        "Das Kind fürchtet sich vor dem Hund.",
    ),
    # negation
    (s("she", "call", "he", negated=True), "She does not call him.", "Sie ruft ihn nicht an."),
    (s("she", "have", "a dog", negated=True), "She does not have a dog.", "Sie hat keinen Hund."),
    (s("I", "drink", "cold milk", negated=True), "I do not drink cold milk.", "Ich trinke keine kalte Milch."),
    (
        s("he", "read", "the book", "past", negated=True, time=YESTERDAY),
        "He did not read the book yesterday.",
        "Er hat das Buch gestern nicht gelesen.",
    ),
    (
        s("he", "read", "a book", "progressive", negated=True, time=TODAY),
        "He is not reading a book today.",
        "Er liest heute kein Buch.",
    ),
    (
        s("they", "wait for", "a letter", "progressive", negated=True),
        "They are not waiting for a letter.",
        "Sie warten nicht auf einen Brief.",
    ),
    (
        s("the man", "work", tense="progressive", negated=True, place="in the garden = im Garten"),
        "The man is not working in the garden.",
        "Der Mann arbeitet nicht im Garten.",
    ),
    # modals
    (s("you", "read", "the book", modal="must"), "You must read the book.", "Sie müssen das Buch lesen."),
    (
        s("you", "open", "the door", modal="must", negated=True),
        "You must not open the door.",
        "Sie dürfen die Tür nicht öffnen.",
    ),
    (
        s("I", "find", "the key", modal="can", negated=True),
        "I cannot find the key.",
        "Ich kann den Schlüssel nicht finden.",
    ),
    (
        s("he", "buy", "a house", "past", modal="want", negated=True),
        "He did not want to buy a house.",
        "Er wollte kein Haus kaufen.",
    ),
    (s("we", "call", "he", "past", modal="have"), "We had to call him.", "Wir mussten ihn anrufen."),
    (
        s("Anna", "drink", "tea", modal="would like"),
        "Anna would like to drink tea.",
        "Anna möchte Tee trinken.",
    ),
    (s("we", "help", "they", modal="should"), "We should help them.", "Wir sollten ihnen helfen."),
    # gern
    (s("she", "read", "books", gladly=True), "She likes to read books.", "Sie liest gern Bücher."),
    (
        s("the boy", "eat", "apples", gladly=True, negated=True),
        "The boy does not like to eat apples.",
        "Der Junge isst nicht gern Äpfel.",
    ),
    (
        s("they", "invite", "our neighbours", gladly=True),
        "They like to invite our neighbours.",
        "Sie laden unsere Nachbarn gern ein.",
    ),
    # time: after definite objects, before indefinite ones
    (
        s("the son", "visit", "his aunt", "future", time=TOMORROW),
        "The son will visit his aunt tomorrow.",
        "Der Sohn wird seine Tante morgen besuchen.",
    ),
    (
        s("the son", "buy", "a new coat", "past", time=YESTERDAY),
        "The son bought a new coat yesterday.",
        "Der Sohn hat gestern einen neuen Mantel gekauft.",
    ),
    (
        s("he", "drink", "coffee", often="never = nie"),
        "He never drinks coffee.",
        "Er trinkt nie Kaffee.",
    ),
    (
        s("we", "see", "the film", "perfect", often="never = noch nie"),
        "We have never seen the film.",
        "Wir haben den Film noch nie gesehen.",
    ),
    (
        s(
            "she",
            "travel",
            tense="progressive",
            manner="by train = mit dem Zug",
            end="to Berlin = nach Berlin",
            time=TODAY,
        ),
        "She is travelling by train to Berlin today.",
        "Sie reist heute mit dem Zug nach Berlin.",
    ),
    # two objects
    (
        s("the man", "give", "a book", "past", to="the child"),
        "The man gave the child a book.",
        "Der Mann hat dem Kind ein Buch gegeben.",
    ),
    (
        s("the man", "give", "the book", to="the child", time=EVERY_DAY),
        "The man gives the child the book every day.",
        "Der Mann gibt dem Kind jeden Tag das Buch.",
    ),
    (
        s("the man", "give", "the book", to="the child", time=TODAY, tense="progressive", negated=True),
        "The man is not giving the child the book today.",
        "Der Mann gibt dem Kind das Buch heute nicht.",
    ),
    (
        s("she", "explain", "the problem", "progressive", to="the student"),
        "She is explaining the problem to the student.",
        "Sie erklärt dem Studenten das Problem.",
    ),
    (s("they", "lend", "money", "past", to="we"), "They lent us money.", "Sie haben uns Geld geliehen."),
    # where and where to
    (
        s("the cup", "stand@resting", tense="progressive", end=spot("on", "auf", "dat", "the table")),
        "The cup is standing on the table.",
        "Die Tasse steht auf dem Tisch.",
    ),
    (
        s("he", "put@moving", "the cup", "progressive", end=spot("on", "auf", "acc", "the table")),
        "He is putting the cup on the table.",
        "Er stellt die Tasse auf den Tisch.",
    ),
    (
        s("the picture", "hang@resting", tense="past", end=spot("on", "an", "dat", "the wall")),
        "The picture hung on the wall.",
        "Das Bild hat an der Wand gehangen.",
    ),
    (
        s("she", "hang@moving", "the picture", "past", end=spot("on", "an", "acc", "the wall")),
        "She hung the picture on the wall.",
        "Sie hat das Bild an die Wand gehängt.",
    ),
    (
        s("I", "go", tense="progressive", end=spot("to", "zu", "dat", "the station")),
        "I am going to the station.",
        "Ich gehe zum Bahnhof.",
    ),
    # be
    (s("the house", "be", end="old = alt", negated=True), "The house is not old.", "Das Haus ist nicht alt."),
    (s("we", "be", tense="past", end="tired = müde"), "We were tired.", "Wir waren müde."),
    (s("she", "be", end="a doctor = Ärztin"), "She is a doctor.", "Sie ist Ärztin."),
    (
        s("Peter", "be", end=frames.than("taller", "größer", noun("his brother"), equal=False)),
        "Peter is taller than his brother.",
        "Peter ist größer als sein Bruder.",
    ),
    (
        s("the dog", "be", end=frames.than("fast", "schnell", noun("the horse"), equal=True), negated=True),
        "The dog is not as fast as the horse.",
        "Der Hund ist nicht so schnell wie das Pferd.",
    ),
    (s(IT, "be", end=clock(3, 30)), "It is half past three.", "Es ist halb vier."),
    (s(IT, "rain", tense="progressive", negated=True), "It is not raining.", "Es regnet nicht."),
    (
        s("the train", "leave", time="at ten past six = um zehn nach sechs"),
        "The train leaves at ten past six.",
        "Der Zug fährt um zehn nach sechs ab.",
    ),
    (
        s(Both(phrase("the man"), phrase("the woman")), "sleep", tense="progressive"),
        "The man and the woman are sleeping.",
        "Der Mann und die Frau schlafen.",
    ),
    # fronted times: the verb stays second
    (
        f("we", "call", "the doctor", "past", time=YESTERDAY),
        "Yesterday we called the doctor.",
        "Gestern haben wir den Arzt angerufen.",
    ),
    (
        f("the girl", "get up", time="in summer = im Sommer", often="often = oft"),
        "In summer the girl often gets up.",
        "Im Sommer steht das Mädchen oft auf.",
    ),
    (
        f("Peter", "remember", "the trip", time=EVERY_DAY),
        "Every day Peter remembers the trip.",
        "Jeden Tag erinnert sich Peter an die Reise.",
    ),
    (
        f("the boy", "sleep", tense="past", time="because of the rain = wegen des Regens"),
        "Because of the rain the boy slept.",
        "Wegen des Regens hat der Junge geschlafen.",
    ),
]

QUESTIONS = [
    (q("you", "read", "the newspaper"), "Do you read the newspaper?", "Lesen Sie die Zeitung?"),
    (q("Anna", "sleep", tense="progressive"), "Is Anna sleeping?", "Schläft Anna?"),
    (q("he", "arrive", tense="perfect"), "Has he arrived?", "Ist er angekommen?"),
    (q("I", "open", "the window", modal="may"), "May I open the window?", "Darf ich das Fenster öffnen?"),
    (q("she", "remember", "we"), "Does she remember us?", "Erinnert sie sich an uns?"),
    (frames.ask_subject(say("he", "bake", "the cake", "past")), "Who baked the cake?", "Wer hat den Kuchen gebacken?"),
    (frames.ask_object(say("you", "meet", tense="progressive"), True), "Who are you meeting?", "Wen treffen Sie?"),
    (
        frames.ask_object(say("the boy", "help", tense="past"), True),
        "Who did the boy help?",
        "Wem hat der Junge geholfen?",
    ),
    (
        frames.ask_object(say("she", "wait for", tense="progressive"), True),
        "Who is she waiting for?",
        "Auf wen wartet sie?",
    ),
    (
        frames.ask_object(say("she", "ask for", tense="progressive"), False),
        "What is she asking for?",
        "Worum bittet sie?",
    ),
    (
        frames.ask_object(say("you", "drink", modal="would like"), False),
        "What would you like to drink?",
        "Was möchten Sie trinken?",
    ),
    (
        frames.ask_which(say("the child", "read", "which book", "progressive")),
        "Which book is the child reading?",
        "Welches Buch liest das Kind?",
    ),
    (
        frames.ask_which(say("you", "wait for", "which bus", "progressive")),
        "Which bus are you waiting for?",
        "Auf welchen Bus warten Sie?",
    ),
    (
        frames.ask_which(say("we", "help", "which old man")),
        "Which old man do we help?",
        "Welchem alten Mann helfen wir?",
    ),
    (
        frames.ask_which(say("she", "buy", "red apples", "past"), Words("how many", "wie viele")),
        "How many red apples did she buy?",
        "Wie viele rote Äpfel hat sie gekauft?",
    ),
    (frames.ask_adverb(WHERE, say("they", "live")), "Where do they live?", "Wo wohnen sie?"),
    (
        frames.ask_adverb(WHY, say("he", "call", "she", "past", negated=True)),
        "Why did he not call her?",
        "Warum hat er sie nicht angerufen?",
    ),
    (
        frames.ask_adverb(Words("where", "wohin"), say("she", "go", tense="progressive")),
        "Where is she going?",
        "Wohin geht sie?",
    ),
]

COMMANDS = [
    (frames.command(say("you", "open", "the door"), please=True), "Please open the door.", "Bitte öffnen Sie die Tür."),
    (frames.command(say("you", "turn off", "the radio")), "Turn off the radio.", "Schalten Sie das Radio aus."),
    (
        frames.command(say("you", "call", "the judge", negated=True)),
        "Do not call the judge.",
        "Rufen Sie den Richter nicht an.",
    ),
    (
        frames.command(say("you", "show", "your ticket", to="he"), please=True),
        "Please show him your ticket.",
        "Bitte zeigen Sie ihm Ihre Fahrkarte.",
    ),
]

IT_RAINS = say(IT, "rain", tense="progressive")


def _relative() -> list[tuple[Sentence, str, str]]:
    reader, inner = frames.subject_relative(noun("the man"), say("he", "read", "the book", "progressive"))
    first = frames.with_relative(say(reader, "be", end="old = alt"), inner)
    bought, inner = frames.object_relative(noun("the car"), say("she", "buy", tense="past"))
    second = frames.with_relative(say(bought, "be", end="expensive = teuer"), inner)
    helped, inner = frames.object_relative(noun("the children"), say("we", "help"))
    third = frames.with_relative(say("they", "know", helped), inner)
    bus, inner = frames.object_relative(noun("the bus"), say("you", "wait for", tense="progressive"))
    fourth = frames.with_relative(say(bus, "be", end="slow = langsam"), inner)
    return [
        (first, "The man who is reading the book is old.", "Der Mann, der das Buch liest, ist alt."),
        (second, "The car that she bought is expensive.", "Das Auto, das sie gekauft hat, ist teuer."),
        (third, "They know the children that we help.", "Sie kennen die Kinder, denen wir helfen."),
        (fourth, "The bus that you are waiting for is slow.", "Der Bus, auf den Sie warten, ist langsam."),
    ]


TWO_CLAUSES = [
    (
        frames.subordinate(say("he", "call", "the doctor"), "because", say("his son", "be", end="sick = krank")),
        "He calls the doctor because his son is sick.",
        "Er ruft den Arzt an, weil sein Sohn krank ist.",
    ),
    (
        frames.subordinate(say("we", "stay", end="in Berlin = in Berlin"), "if", IT_RAINS, first=True),
        "If it is raining, we stay in Berlin.",
        "Wenn es regnet, bleiben wir in Berlin.",
    ),
    (
        frames.subordinate(
            say("she", "laugh", tense="past"), "although", say("the boy", "call", "she", "past", negated=True)
        ),
        "She laughed although the boy did not call her.",
        "Sie hat gelacht, obwohl der Junge sie nicht angerufen hat.",
    ),
    (
        frames.subordinate(
            say("Anna", "tidy up", "the room", "past"), "before", say("the guests", "arrive", tense="past")
        ),
        "Anna tidied up the room before the guests arrived.",
        "Anna hat das Zimmer aufgeräumt, bevor die Gäste angekommen sind.",
    ),
    (
        frames.subordinate(
            say("she", "buy", "the coat", "progressive"),
            "because",
            say(noun("the coat").it(), "be", end="cheap = billig"),
        ),
        "She is buying the coat because it is cheap.",
        "Sie kauft den Mantel, weil er billig ist.",
    ),
    (
        frames.subordinate(
            say("they", "sell", "the lamp"), "because", say(noun("the lamp").it(), "be", end="old = alt")
        ),
        "They sell the lamp because it is old.",
        "Sie verkaufen die Lampe, weil sie alt ist.",
    ),
    (
        frames.reported(say("I", "know@thinking"), THAT, say("you", "repair", "the car", modal="can")),
        "I know that you can repair the car.",
        "Ich weiß, dass Sie das Auto reparieren können.",
    ),
    (
        frames.reported(say("you", "know@thinking"), WHETHER, say("he", "turn on", "the radio", "past"), question=True),
        "Do you know whether he turned on the radio?",
        "Wissen Sie, ob er das Radio eingeschaltet hat?",
    ),
    (
        frames.reported(say("we", "know@thinking", negated=True), WHEN, say("the teacher", "get up")),
        "We do not know when the teacher gets up.",
        "Wir wissen nicht, wann der Lehrer aufsteht.",
    ),
    (
        frames.infinitive(say("he", "try@thinking", tense="past"), say("he", "turn off", "the lamp")),
        "He tried to turn off the lamp.",
        "Er hat versucht, die Lampe auszuschalten.",
    ),
    (
        frames.infinitive(say("I", "hope@thinking"), say("I", "remember", "the address")),
        "I hope to remember the address.",
        "Ich hoffe, mich an die Adresse zu erinnern.",
    ),
    (
        frames.infinitive(
            say("she", "go", tense="progressive", end=spot("to", "in", "acc", "the shop")),
            say("she", "buy", "bread"),
            purpose=True,
        ),
        "She is going to the shop in order to buy bread.",
        "Sie geht in den Laden, um Brot zu kaufen.",
    ),
    (
        frames.coordinated(say("he", "sleep"), "and", say("Anna", "read", "a book", "progressive")),
        "He sleeps and Anna is reading a book.",
        "Er schläft und Anna liest ein Buch.",
    ),
    (
        frames.coordinated(say("he", "dance"), "but", say("she", "laugh", negated=True)),
        "He dances, but she does not laugh.",
        "Er tanzt, aber sie lacht nicht.",
    ),
    *_relative(),
]

KITCHEN = spot("in", "in", "dat", "the kitchen")
EXISTENCE = [
    (
        frames.there_is(noun("a table"), KITCHEN),
        "There is a table in the kitchen.",
        "In der Küche gibt es einen Tisch.",
    ),
    (
        frames.there_is(noun("chairs"), KITCHEN, negated=True),
        "There are no chairs in the kitchen.",
        "In der Küche gibt es keine Stühle.",
    ),
    (
        frames.there_is(noun("an old bed"), KITCHEN, question=True),
        "Is there an old bed in the kitchen?",
        "Gibt es in der Küche ein altes Bett?",
    ),
    (
        frames.there_is(replace(noun("lamps"), count=31), KITCHEN),
        "There are thirty-one lamps in the kitchen.",
        "In der Küche gibt es einunddreißig Lampen.",
    ),
]

GOLDEN = STATEMENTS + QUESTIONS + COMMANDS + TWO_CLAUSES + EXISTENCE


def test_there_are_enough() -> None:
    assert len(GOLDEN) >= 100


@pytest.mark.parametrize(("sentence", "en", "de"), GOLDEN, ids=[en for _, en, _ in GOLDEN])
def test_sentence(sentence: Sentence, en: str, de: str) -> None:
    assert (sentence.en, sentence.de) == (en, de)


def test_triples() -> None:
    assert s("the old man", "read", "the book").triples == (("man", "read", "book"),)
    assert s("we", "wait for", "he").triples == (("we", "wait for", "he"),)
    assert s("we", "sleep").triples == ()
    assert s("the man", "give", "a book", to="the child").triples == (("man", "give", "book"),)
    both = Both(phrase("the man"), phrase("Anna"))
    assert s(both, "read", "books").triples == (("man", "read", "book"), ("Anna", "read", "book"))
    assert frames.ask_subject(say("he", "bake", "the cake")).triples == ()
    assert frames.ask_object(say("he", "bake"), person=False).triples == ()
    assert frames.ask_which(say("he", "read", "which book")).triples == (("he", "read", "book"),)
    relative = _relative()
    assert relative[0][0].triples == (("man", "read", "book"),)
    assert set(relative[2][0].triples) == {("they", "know", "child"), ("we", "help", "child")}

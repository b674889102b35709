"""The verbs of the phrasebook with their principal parts, what they govern and what they take as an object.

Columns: English | past | participle | German infinitive | er-form | perfect | government | objects | flags.

English: the first word is conjugated. A word with ``+`` is a particle (turn on the lamp, turn it on); other words
stay before the object (wait for the bus). German: ``an/rufen`` has the separable prefix an-; the er-form is written
without it; ``sich`` marks a reflexive verb (accusative). Government: a case, ``dat+acc`` for a person and a thing,
PREPOSITION+CASE, or ``-`` for none. Objects: ``@kind`` is every noun of that kind.

Flags: ``stative`` has no progressive, no modal and no time; ``plain`` has no progressive; ``bad`` is nothing that one
likes or wants to do; ``place`` goes with the place where it happens; ``manner`` goes with an adverb of manner; ``few`` is used with
at most one or two things at a time, so with no number words; ``animal`` may have an animal as its subject;
``to`` puts the English recipient after the thing; ``pret=FORM`` uses the preterite, not the perfect, for the past.
"""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.phrasebook.nouns import NOUNS, Noun, of_kind

_TRANSITIVE = """
read          | read       | read       | lesen        | liest      | hat gelesen       | acc | @text | manner place
write         | wrote      | written    | schreiben    | schreibt   | hat geschrieben   | acc | letter book postcard novel poem report article story message | manner place
translate     | translated | translated | übersetzen   | übersetzt  | hat übersetzt     | acc | letter book novel poem report article story contract message word song | manner place
sign          | signed     | signed     | unterschreiben | unterschreibt | hat unterschrieben | acc | contract letter report bill postcard |
buy           | bought     | bought     | kaufen       | kauft      | hat gekauft       | acc | @food @drink @clothes @thing @furniture car bicycle boat house flat book newspaper magazine postcard novel |
sell          | sold       | sold       | verkaufen    | verkauft   | hat verkauft      | acc | @food @clothes @thing @furniture car bicycle boat house flat book newspaper horse cow milk wine |
see           | saw        | seen       | sehen        | sieht      | hat gesehen       | acc | @person @animal house castle ship plane train bus lake tree film picture mistake problem bridge | animal plain place
visit         | visited    | visited    | besuchen     | besucht    | hat besucht       | acc | @person museum castle city village school church library market theatre concert course |
know          | knew       | known      | kennen       | kennt      | hat gekannt       | acc | @person city village hotel restaurant museum film song book novel poem story word address answer | stative few pret=kannte
love          | loved      | loved      | lieben       | liebt      | hat geliebt       | acc | @person @animal music city garden house film song book language | stative few
like          | liked      | liked      | mögen        | mag        | hat gemocht       | acc | @person @animal @food @drink music film song book city picture garden | stative few pret=mochte
have          | had        | had        | haben        | hat        | hat gehabt        | acc | dog cat horse cow bird @clothes @thing car bicycle boat garden house problem question plan answer dream money exam | stative pret=hatte
need          | needed     | needed     | brauchen     | braucht    | hat gebraucht     | acc | @thing @clothes @furniture car bicycle taxi money help doctor lawyer engineer flat room water coffee plan answer | stative
eat           | ate        | eaten      | essen        | isst       | hat gegessen      | acc | @food | manner animal place
drink         | drank      | drunk      | trinken      | trinkt     | hat getrunken     | acc | @drink | manner place
cook          | cooked     | cooked     | kochen       | kocht      | hat gekocht       | acc | potato carrot soup rice meat egg |
bake          | baked      | baked      | backen       | backt      | hat gebacken      | acc | cake bread roll |
peel          | peeled     | peeled     | schälen      | schält     | hat geschält      | acc | apple pear banana orange potato carrot egg | manner
order         | ordered    | ordered    | bestellen    | bestellt   | hat bestellt      | acc | @food @drink taxi book chair lamp |
open          | opened     | opened     | öffnen       | öffnet     | hat geöffnet      | acc | door window letter bottle suitcase bag box gift cupboard | manner
close         | closed     | closed     | schließen    | schließt   | hat geschlossen   | acc | door window suitcase box bag book cupboard | manner
repair        | repaired   | repaired   | reparieren   | repariert  | hat repariert     | acc | car bus bicycle boat plane watch camera radio computer lamp door window chair table bed umbrella | manner place
clean         | cleaned    | cleaned    | putzen       | putzt      | hat geputzt       | acc | window kitchen room flat shoe mirror house lamp door office | manner
wash          | washed     | washed     | waschen      | wäscht     | hat gewaschen     | acc | car shirt dress skirt sweater apple pear tomato dog | manner
carry         | carried    | carried    | tragen       | trägt      | hat getragen      | acc | bag suitcase box basket child chair table bottle umbrella lamp |
wear          | wore       | worn       | tragen       | trägt      | hat getragen      | acc | @clothes ring watch | few
find          | found      | found      | finden       | findet     | hat gefunden      | acc | @thing @clothes dog cat mistake answer address money letter contract | place
lose          | lost       | lost       | verlieren    | verliert   | hat verloren      | acc | key watch ring bag umbrella ticket hat ball money camera game | place bad
look for      | looked     | looked     | suchen       | sucht      | hat gesucht       | acc | key watch ring bag umbrella ticket hat shoe dog cat flat hotel mistake answer child doctor waiter | place
take          | took       | taken      | nehmen       | nimmt      | hat genommen      | acc | bus train taxi plane ship | few
miss          | missed     | missed     | verpassen    | verpasst   | hat verpasst      | acc | bus train plane concert meeting film party | few bad
bring +along  | brought    | brought    | mit/bringen  | bringt     | hat mitgebracht   | acc | cake flower gift dog bottle newspaper child friend chair wine money |
call          | called     | called     | an/rufen     | ruft       | hat angerufen     | acc | @person |
invite        | invited    | invited    | ein/laden    | lädt       | hat eingeladen    | acc | @person |
pick +up      | picked     | picked     | ab/holen     | holt       | hat abgeholt      | acc | @person suitcase letter ticket gift |
turn +on      | turned     | turned     | ein/schalten | schaltet   | hat eingeschaltet | acc | lamp radio computer camera |
turn +off     | turned     | turned     | aus/schalten | schaltet   | hat ausgeschaltet | acc | lamp radio computer camera |
put +on       | put        | put        | an/ziehen    | zieht      | hat angezogen     | acc | @clothes | few
take +off     | took       | taken      | aus/ziehen   | zieht      | hat ausgezogen    | acc | @clothes | few
try +on       | tried      | tried      | an/probieren | probiert   | hat anprobiert    | acc | @clothes ring |
tidy +up      | tidied     | tidied     | auf/räumen   | räumt      | hat aufgeräumt    | acc | kitchen room flat office house cupboard shop | manner
throw +away   | threw      | thrown     | weg/werfen   | wirft      | hat weggeworfen   | acc | letter newspaper magazine shoe bottle box ticket bill postcard banana picture |
give +back    | gave       | given      | zurück/geben | gibt       | hat zurückgegeben | acc | book key money camera bicycle umbrella ring ball gift |
write +down   | wrote      | written    | auf/schreiben | schreibt  | hat aufgeschrieben | acc | address word question answer story dream plan result mistake | manner
look at       | looked     | looked     | betrachten   | betrachtet | hat betrachtet    | acc | picture castle flower house tree ring watch bird dress lake mirror church |
lock          | locked     | locked     | ab/schließen | schließt   | hat abgeschlossen | acc | door cupboard car office suitcase bicycle house flat |
hear          | heard      | heard      | hören        | hört       | hat gehört        | acc | bird dog child song music storm rain noise train cat woman | animal few plain
understand    | understood | understood | verstehen    | versteht   | hat verstanden    | acc | @person question answer problem mistake word language story film poem plan joke | few plain
answer        | answered   | answered   | beantworten  | beantwortet | hat beantwortet  | acc | question letter message |
ask           | asked      | asked      | fragen       | fragt      | hat gefragt       | acc | @person |
meet          | met        | met        | treffen      | trifft     | hat getroffen     | acc | @person | place
watch         | watched    | watched    | beobachten   | beobachtet | hat beobachtet    | acc | @animal @person | animal place
learn         | learned    | learned    | lernen       | lernt      | hat gelernt       | acc | language word poem song | place
sing          | sang       | sung       | singen       | singt      | hat gesungen      | acc | song | place
draw          | drew       | drawn      | zeichnen     | zeichnet   | hat gezeichnet    | acc | tree house bird castle cat flower horse ship | manner place
paint         | painted    | painted    | malen        | malt       | hat gemalt        | acc | picture flower lake horse tree bridge | manner place
build         | built      | built      | bauen        | baut       | hat gebaut        | acc | house bridge boat ship school table shelf castle |
rent          | rented     | rented     | mieten       | mietet     | hat gemietet      | acc | flat car house room boat office bicycle |
hide          | hid        | hidden     | verstecken   | versteckt  | hat versteckt     | acc | key money letter gift ring ball | place
steal         | stole      | stolen     | stehlen      | stiehlt    | hat gestohlen     | acc | ring bicycle money picture car watch bag |
photograph    | photographed | photographed | fotografieren | fotografiert | hat fotografiert | acc | castle bird bridge lake flower child church house lion | place
feed          | fed        | fed        | füttern      | füttert    | hat gefüttert     | acc | dog cat horse cow bird monkey |
win           | won        | won        | gewinnen     | gewinnt    | hat gewonnen      | acc | game money trip car | few
save          | saved      | saved      | retten       | rettet     | hat gerettet      | acc | @person @animal |
choose        | chose      | chosen     | aus/wählen   | wählt      | hat ausgewählt    | acc | picture dress ring book wine gift film song coat lamp |
prepare       | prepared   | prepared   | vor/bereiten | bereitet   | hat vorbereitet   | acc | meeting party trip concert game exam course |
cancel        | cancelled  | cancelled  | ab/sagen     | sagt       | hat abgesagt      | acc | meeting party trip concert game course |
accept        | accepted   | accepted   | an/nehmen    | nimmt      | hat angenommen    | acc | gift invitation money help plan |
pay for       | paid       | paid       | bezahlen     | bezahlt    | hat bezahlt       | acc | ticket coffee soup book taxi dress wine flower tea shoe |
forget        | forgot     | forgotten  | vergessen    | vergisst   | hat vergessen     | acc | key address umbrella ticket bag word question invitation | plain bad
check         | checked    | checked    | prüfen       | prüft      | hat geprüft       | acc | bill ticket result contract report computer answer address | manner
wake          | woke       | woken      | wecken       | weckt      | hat geweckt       | acc | @person |
greet         | greeted    | greeted    | begrüßen     | begrüßt    | hat begrüßt       | acc | @person |
receive       | received   | received   | bekommen     | bekommt    | hat bekommen      | acc | letter gift money message invitation bill answer postcard | plain bad
help          | helped     | helped     | helfen       | hilft      | hat geholfen      | dat | @person | few
thank         | thanked    | thanked    | danken       | dankt      | hat gedankt       | dat | @person | few
congratulate  | congratulated | congratulated | gratulieren | gratuliert | hat gratuliert | dat | @person | few
trust         | trusted    | trusted    | vertrauen    | vertraut   | hat vertraut      | dat | @person | few plain
follow        | followed   | followed   | folgen       | folgt      | ist gefolgt       | dat | @person dog cat car taxi | few animal
listen to     | listened   | listened   | zu/hören     | hört       | hat zugehört      | dat | @person | few
agree with    | agreed     | agreed     | zu/stimmen   | stimmt     | hat zugestimmt    | dat | @person | few plain
wait for      | waited     | waited     | warten       | wartet     | hat gewartet      | auf+acc | @person bus train taxi letter answer result bill message | few place
think of      | thought    | thought    | denken       | denkt      | hat gedacht       | an+acc | @person exam trip party money dream problem concert | few
talk about    | talked     | talked     | sprechen     | spricht    | hat gesprochen    | über+acc | film book problem plan mistake trip party concert exam result @person story money music | few
laugh at      | laughed    | laughed    | lachen       | lacht      | hat gelacht       | über+acc | story mistake film monkey joke question answer hat | few
ask for       | asked      | asked      | bitten       | bittet     | hat gebeten       | um+acc | help bill money answer water address key | few
look after    | looked     | looked     | sich kümmern | kümmert    | hat gekümmert     | um+acc | dog cat horse garden @person flower cow | few
look forward to | looked   | looked     | sich freuen  | freut      | hat gefreut       | auf+acc | party concert trip film game gift guest | few
remember      | remembered | remembered | sich erinnern | erinnert  | hat erinnert      | an+acc | @person trip film song party story word address dream | few plain
be afraid of  | was        | been       | sich fürchten | fürchtet  | hat gefürchtet    | vor+dat | dog lion bear mouse exam storm horse cow judge | stative few
take part in  | took       | taken      | teil/nehmen  | nimmt      | hat teilgenommen  | an+dat | meeting course game trip exam | few
apologize to  | apologized | apologized | sich entschuldigen | entschuldigt | hat entschuldigt | bei+dat | @person | few
give          | gave       | given      | geben        | gibt       | hat gegeben       | dat+acc | book key money flower gift ball apple ticket cake umbrella picture bill |
show          | showed     | shown      | zeigen       | zeigt      | hat gezeigt       | dat+acc | picture letter house garden city museum flat ring camera dress ticket contract result mistake |
send          | sent       | sent       | schicken     | schickt    | hat geschickt     | dat+acc | letter postcard message book bill invitation gift flower money picture |
lend          | lent       | lent       | leihen       | leiht      | hat geliehen      | dat+acc | book car bicycle umbrella camera money chair coat |
bring         | brought    | brought    | bringen      | bringt     | hat gebracht      | dat+acc | soup coffee tea water bill book cake newspaper letter key chair glass |
tell          | told       | told       | erzählen     | erzählt    | hat erzählt       | dat+acc | story dream joke | few
explain       | explained  | explained  | erklären     | erklärt    | hat erklärt       | dat+acc | problem plan mistake word result game poem picture question | to
recommend     | recommended | recommended | empfehlen  | empfiehlt  | hat empfohlen     | dat+acc | hotel restaurant film book wine museum course novel doctor lawyer | to
"""

_INTRANSITIVE = """
sleep         | slept      | slept      | schlafen     | schläft    | hat geschlafen    | - | | place animal
work          | worked     | worked     | arbeiten     | arbeitet   | hat gearbeitet    | - | | place with manner
dance         | danced     | danced     | tanzen       | tanzt      | hat getanzt       | - | | place with
play          | played     | played     | spielen      | spielt     | hat gespielt      | - | | place with animal
laugh         | laughed    | laughed    | lachen       | lacht      | hat gelacht       | - | | manner
cry           | cried      | cried      | weinen       | weint      | hat geweint       | - | |
wait          | waited     | waited     | warten       | wartet     | hat gewartet      | - | | place
swim          | swam       | swum       | schwimmen    | schwimmt   | ist geschwommen   | - | | manner animal
get up        | got        | got        | auf/stehen   | steht      | ist aufgestanden  | - | | clock manner
wake up       | woke       | woken      | auf/wachen   | wacht      | ist aufgewacht    | - | | clock
fall asleep   | fell       | fallen     | ein/schlafen | schläft    | ist eingeschlafen | - | | clock animal
arrive        | arrived    | arrived    | an/kommen    | kommt      | ist angekommen    | - | | clock place
come back     | came       | come       | zurück/kommen | kommt     | ist zurückgekommen | - | | clock
hurry         | hurried    | hurried    | sich beeilen | beeilt     | hat beeilt        | - | |
rest          | rested     | rested     | sich aus/ruhen | ruht     | hat ausgeruht     | - | | place
get dressed   | got        | got        | sich an/ziehen | zieht    | hat angezogen     | - | | manner
live          | lived      | lived      | wohnen       | wohnt      | hat gewohnt       | - | | stative live
stay          | stayed     | stayed     | bleiben      | bleibt     | ist geblieben     | - | | live
go            | went       | gone       | gehen        | geht       | ist gegangen      | - | | goal
run           | ran        | run        | laufen       | läuft      | ist gelaufen      | - | | goal animal
come          | came       | come       | kommen       | kommt      | ist gekommen      | - | | goal
drive         | drove      | driven     | fahren       | fährt      | ist gefahren      | - | | goal town
travel        | travelled  | travelled  | reisen       | reist      | ist gereist       | - | | town vehicle
fly           | flew       | flown      | fliegen      | fliegt     | ist geflogen      | - | | town
leave         | left       | left       | ab/fahren    | fährt      | ist abgefahren    | - | | train
be            | was        | been       | sein         | ist        | ist gewesen       | - | | stative pret=war
rain          | rained     | rained     | regnen       | regnet     | hat geregnet      | - | | weather
snow          | snowed     | snowed     | schneien     | schneit    | hat geschneit     | - | | weather
begin         | began      | begun      | beginnen     | beginnt    | hat begonnen      | - | | event
end           | ended      | ended      | enden        | endet      | hat geendet       | - | | event
open          | opened     | opened     | öffnen       | öffnet     | hat geöffnet      | - | | hours
close         | closed     | closed     | schließen    | schließt   | hat geschlossen   | - | | hours
cost          | cost       | cost       | kosten       | kostet     | hat gekostet      | - | | stative
belong to     | belonged   | belonged   | gehören      | gehört     | hat gehört        | dat | @person | stative few pret=gehörte
"""

_THINKING = """
know          | knew       | known      | wissen       | weiß       | hat gewusst       | - | | that whether
believe       | believed   | believed   | glauben      | glaubt     | hat geglaubt      | - | | that
say           | said       | said       | sagen        | sagt       | hat gesagt        | - | | that
hope          | hoped      | hoped      | hoffen       | hofft      | hat gehofft       | - | | that to
try           | tried      | tried      | versuchen    | versucht   | hat versucht      | - | | to
forget        | forgot     | forgotten  | vergessen    | vergisst   | hat vergessen     | - | | to
promise       | promised   | promised   | versprechen  | verspricht | hat versprochen   | - | | to
begin         | began      | begun      | beginnen     | beginnt    | hat begonnen      | - | | to
"""

_RESTING = """
lie           | lay        | lain       | liegen       | liegt      | hat gelegen       | - | | still
stand         | stood      | stood      | stehen       | steht      | hat gestanden     | - | | still
hang          | hung       | hung       | hängen       | hängt      | hat gehangen      | - | | still
sit           | sat        | sat        | sitzen       | sitzt      | hat gesessen      | - | | still
"""

_MOVING = """
lay           | laid       | laid       | legen        | legt       | hat gelegt        | acc | | move
put           | put        | put        | stellen      | stellt     | hat gestellt      | acc | | move
hang          | hung       | hung       | hängen       | hängt      | hat gehängt       | acc | | move
"""

DOUBLED = frozenset({"get", "put", "swim", "run", "sit", "forget", "win", "begin", "cancel", "travel"})
"""English verbs whose last consonant is doubled before -ing."""

@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """One verb in both languages: ``rest`` and ``particle`` are the English words after the conjugated one.

    ``base`` is the German infinitive without its separable ``prefix``; ``he`` the er-form without it; ``perfect``
    the er-form of the auxiliary (hat, ist). ``preposition`` is German and empty for a bare case.
    """

    lemma: str
    en: str
    rest: str
    particle: str
    past: str
    en_participle: str
    prefix: str
    base: str
    he: str
    perfect: str
    participle: str
    reflexive: bool
    preposition: str
    case: str
    recipient: bool
    preterite: str
    objects: tuple[Noun, ...]
    flags: frozenset[str]

    @property
    def third(self) -> str:
        """The English form for he, she and it."""
        if self.en in ("be", "have"):
            return {"be": "is", "have": "has"}[self.en]
        if self.en.endswith("y") and self.en[-2] not in "aeou":
            return self.en[:-1] + "ies"
        return self.en + ("es" if self.en.endswith(("s", "sh", "ch", "x", "o")) else "s")

    @property
    def ing(self) -> str:
        """The English present participle."""
        if self.en in DOUBLED:
            return self.en + self.en[-1] + "ing"
        if self.en.endswith("ie"):
            return self.en[:-2] + "ying"
        if self.en.endswith("e") and not self.en.endswith(("ee", "be")):
            return self.en[:-1] + "ing"
        return self.en + "ing"

    @property
    def ambiguous(self) -> bool:
        """Whether the English past looks like the present (they read), so that only he and she tell them apart."""
        return self.past == self.en


def _objects(cell: str) -> tuple[Noun, ...]:
    nouns: dict[str, Noun] = {}
    for word in cell.split():
        for noun in of_kind(word[1:]) if word.startswith("@") else (NOUNS[word],):
            nouns[noun.lemma] = noun
    return tuple(nouns.values())


def _verb(line: str) -> Verb:
    english, past, participle, german, he, perfect, government, objects, flags = (c.strip() for c in line.split("|"))
    head, *rest = english.split()
    auxiliary, german_participle = perfect.split()
    reflexive = german.startswith("sich ")
    prefix, _, base = german.removeprefix("sich ").rpartition("/")
    preposition, _, case = government.rpartition("+")
    words = flags.split()
    return Verb(
        lemma=english.replace("+", ""),
        en=head,
        rest=" ".join(word for word in rest if not word.startswith("+")),
        particle=" ".join(word[1:] for word in rest if word.startswith("+")),
        past=past,
        en_participle=participle,
        prefix=prefix,
        base=base,
        he=he,
        perfect=auxiliary,
        participle=german_participle,
        reflexive=reflexive,
        preposition="" if preposition == "dat" else preposition,
        case="" if case == "-" else case,
        recipient=preposition == "dat",
        preterite=next((word[5:] for word in words if word.startswith("pret=")), ""),
        objects=_objects(objects),
        flags=frozenset(word for word in words if not word.startswith("pret=")),
    )


def _table(text: str) -> dict[str, Verb]:
    return {verb.lemma: verb for verb in map(_verb, text.strip().splitlines())}


TRANSITIVE: dict[str, Verb] = _table(_TRANSITIVE)
"""Verbs with an object, by English lemma."""

INTRANSITIVE: dict[str, Verb] = _table(_INTRANSITIVE)
"""Verbs without an object (and belong to, whose subject is a thing), by English lemma."""

THINKING: dict[str, Verb] = _table(_THINKING)
"""Verbs with a that-clause or an infinitive, by English lemma; ``know`` is wissen here and kennen above."""

RESTING: dict[str, Verb] = _table(_RESTING)
"""Verbs that say where something is (with the dative), by English lemma."""

MOVING: dict[str, Verb] = _table(_MOVING)
"""Verbs that say where something is put (with the accusative), by English lemma."""

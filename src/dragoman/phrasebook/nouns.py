"""The nouns of the phrasebook: English and German forms, and what kind of thing each one is.

Columns: English singular | English plural | article and German nominative | genitive | plural | kind | flags.
A masculine noun whose genitive ends in -n is weak (der Student, den Studenten). ``-`` stands for a form that does
not exist: a noun without plural is a mass noun (milk), a noun without singular is plural only (parents).

Flags: ``kin`` is mostly used with a possessive; ``job`` can be a profession (er ist Lehrer),
``fem=`` its German for a woman (sie ist Lehrerin); a place says how one
is there (``at=ENGLISH:GERMAN``, the German with the dative) and how one goes there (``to=in`` with the accusative,
``to=zu`` with the dative); ``lie``, ``stand`` and ``hang`` say how a thing is placed (liegen, stehen, hängen).
"""

from __future__ import annotations

from dataclasses import dataclass, field

_TABLE = """
man          | men           | der Mann            | Mannes          | Männer           | person    |
woman        | women         | die Frau            | Frau            | Frauen           | person    |
child        | children      | das Kind            | Kindes          | Kinder           | person    |
boy          | boys          | der Junge           | Jungen          | Jungen           | person    |
girl         | girls         | das Mädchen         | Mädchens        | Mädchen          | person    |
neighbour    | neighbours    | der Nachbar         | Nachbarn        | Nachbarn         | person    |
friend       | friends       | der Freund          | Freundes        | Freunde          | person    |
guest        | guests        | der Gast            | Gastes          | Gäste            | person    |
customer     | customers     | der Kunde           | Kunden          | Kunden           | person    |
tourist      | tourists      | der Tourist         | Touristen       | Touristen        | person    |
patient      | patients      | der Patient         | Patienten       | Patienten        | person    |
colleague    | colleagues    | der Kollege         | Kollegen        | Kollegen         | person    |
brother      | brothers      | der Bruder          | Bruders         | Brüder           | person    | kin
sister       | sisters       | die Schwester       | Schwester       | Schwestern       | person    | kin
mother       | mothers       | die Mutter          | Mutter          | Mütter           | person    | kin
father       | fathers       | der Vater           | Vaters          | Väter            | person    | kin
son          | sons          | der Sohn            | Sohnes          | Söhne            | person    | kin
daughter     | daughters     | die Tochter         | Tochter         | Töchter          | person    | kin
uncle        | uncles        | der Onkel           | Onkels          | Onkel            | person    | kin
aunt         | aunts         | die Tante           | Tante           | Tanten           | person    | kin
grandmother  | grandmothers  | die Großmutter      | Großmutter      | Großmütter       | person    | kin
-            | parents       | die -               | -               | Eltern           | person    | kin
teacher      | teachers      | der Lehrer          | Lehrers         | Lehrer           | person    | job fem=Lehrerin
student      | students      | der Student         | Studenten       | Studenten        | person    | job fem=Studentin
doctor       | doctors       | der Arzt            | Arztes          | Ärzte            | person    | job fem=Ärztin
lawyer       | lawyers       | der Anwalt          | Anwalts         | Anwälte          | person    | job fem=Anwältin
painter      | painters      | der Maler           | Malers          | Maler            | person    | job fem=Malerin
farmer       | farmers       | der Bauer           | Bauern          | Bauern           | person    | job fem=Bäuerin
baker        | bakers        | der Bäcker          | Bäckers         | Bäcker           | person    | job fem=Bäckerin
waiter       | waiters       | der Kellner         | Kellners        | Kellner          | person    | job
nurse        | nurses        | die Krankenschwester | Krankenschwester | Krankenschwestern | person | job
actress      | actresses     | die Schauspielerin  | Schauspielerin  | Schauspielerinnen | person   | job
journalist   | journalists   | der Journalist      | Journalisten    | Journalisten     | person    | job fem=Journalistin
policeman    | policemen     | der Polizist        | Polizisten      | Polizisten       | person    | job
engineer     | engineers     | der Ingenieur       | Ingenieurs      | Ingenieure       | person    | job fem=Ingenieurin
judge        | judges        | der Richter         | Richters        | Richter          | person    | job fem=Richterin
pilot        | pilots        | der Pilot           | Piloten         | Piloten          | person    | job fem=Pilotin
dog          | dogs          | der Hund            | Hundes          | Hunde            | animal    |
cat          | cats          | die Katze           | Katze           | Katzen           | animal    |
horse        | horses        | das Pferd           | Pferdes         | Pferde           | animal    |
cow          | cows          | die Kuh             | Kuh             | Kühe             | animal    |
bird         | birds         | der Vogel           | Vogels          | Vögel            | animal    |
mouse        | mice          | die Maus            | Maus            | Mäuse            | animal    |
bear         | bears         | der Bär             | Bären           | Bären            | animal    |
monkey       | monkeys       | der Affe            | Affen           | Affen            | animal    |
lion         | lions         | der Löwe            | Löwen           | Löwen            | animal    |
apple        | apples        | der Apfel           | Apfels          | Äpfel            | food      | lie
pear         | pears         | die Birne           | Birne           | Birnen           | food      | lie
banana       | bananas       | die Banane          | Banane          | Bananen          | food      | lie
orange       | oranges       | die Orange          | Orange          | Orangen          | food      | lie
potato       | potatoes      | die Kartoffel       | Kartoffel       | Kartoffeln       | food      | lie
tomato       | tomatoes      | die Tomate          | Tomate          | Tomaten          | food      | lie
carrot       | carrots       | die Karotte         | Karotte         | Karotten         | food      | lie
egg          | eggs          | das Ei              | Eis             | Eier             | food      | lie
cake         | cakes         | der Kuchen          | Kuchens         | Kuchen           | food      | stand
roll         | rolls         | das Brötchen        | Brötchens       | Brötchen         | food      | lie
sausage      | sausages      | die Wurst           | Wurst           | Würste           | food      | lie
soup         | soups         | die Suppe           | Suppe           | Suppen           | food      | stand
bread        | -             | das Brot            | Brotes          | -                | food      | lie
cheese       | -             | der Käse            | Käses           | -                | food      | lie
meat         | -             | das Fleisch         | Fleisches       | -                | food      | lie
rice         | -             | der Reis            | Reises          | -                | food      |
coffee       | -             | der Kaffee          | Kaffees         | -                | drink     |
tea          | -             | der Tee             | Tees            | -                | drink     |
milk         | -             | die Milch           | Milch           | -                | drink     |
water        | -             | das Wasser          | Wassers         | -                | drink     |
beer         | -             | das Bier            | Biers           | -                | drink     |
wine         | -             | der Wein            | Weins           | -                | drink     |
juice        | -             | der Saft            | Saftes          | -                | drink     |
book         | books         | das Buch            | Buches          | Bücher           | text      | lie
newspaper    | newspapers    | die Zeitung         | Zeitung         | Zeitungen        | text      | lie
magazine     | magazines     | die Zeitschrift     | Zeitschrift     | Zeitschriften    | text      | lie
letter       | letters       | der Brief           | Briefes         | Briefe           | text      | lie
postcard     | postcards     | die Postkarte       | Postkarte       | Postkarten       | text      | lie
novel        | novels        | der Roman           | Romans          | Romane           | text      | lie
poem         | poems         | das Gedicht         | Gedichts        | Gedichte         | text      |
report       | reports       | der Bericht         | Berichts        | Berichte         | text      | lie
article      | articles      | der Artikel         | Artikels        | Artikel          | text      |
story        | stories       | die Geschichte      | Geschichte      | Geschichten      | text      |
message      | messages      | die Nachricht       | Nachricht       | Nachrichten      | text      |
contract     | contracts     | der Vertrag         | Vertrags        | Verträge         | text      | lie
coat         | coats         | der Mantel          | Mantels         | Mäntel           | clothes   | hang lie
dress        | dresses       | das Kleid           | Kleides         | Kleider          | clothes   | hang lie
shirt        | shirts        | das Hemd            | Hemdes          | Hemden           | clothes   | lie
hat          | hats          | der Hut             | Hutes           | Hüte             | clothes   | lie
jacket       | jackets       | die Jacke           | Jacke           | Jacken           | clothes   | hang lie
skirt        | skirts        | der Rock            | Rocks           | Röcke            | clothes   | lie
shoe         | shoes         | der Schuh           | Schuhs          | Schuhe           | clothes   | stand
sweater      | sweaters      | der Pullover        | Pullovers       | Pullover         | clothes   | lie
key          | keys          | der Schlüssel       | Schlüssels      | Schlüssel        | thing     | lie
watch        | watches       | die Uhr             | Uhr             | Uhren            | thing     | lie
ring         | rings         | der Ring            | Rings           | Ringe            | thing     | lie
bag          | bags          | die Tasche          | Tasche          | Taschen          | thing     | lie
suitcase     | suitcases     | der Koffer          | Koffers         | Koffer           | thing     | stand
umbrella     | umbrellas     | der Regenschirm     | Regenschirms    | Regenschirme     | thing     | lie
camera       | cameras       | die Kamera          | Kamera          | Kameras          | thing     | lie
radio        | radios        | das Radio           | Radios          | Radios           | thing     | stand
computer     | computers     | der Computer        | Computers       | Computer         | thing     | stand
lamp         | lamps         | die Lampe           | Lampe           | Lampen           | thing     | stand
knife        | knives        | das Messer          | Messers         | Messer           | thing     | lie
spoon        | spoons        | der Löffel          | Löffels         | Löffel           | thing     | lie
plate        | plates        | der Teller          | Tellers         | Teller           | thing     | stand
cup          | cups          | die Tasse           | Tasse           | Tassen           | thing     | stand
glass        | glasses       | das Glas            | Glases          | Gläser           | thing     | stand
bottle       | bottles       | die Flasche         | Flasche         | Flaschen         | thing     | stand
vase         | vases         | die Vase            | Vase            | Vasen            | thing     | stand
box          | boxes         | die Kiste           | Kiste           | Kisten           | thing     | stand
basket       | baskets       | der Korb            | Korbes          | Körbe            | thing     | stand
picture      | pictures      | das Bild            | Bildes          | Bilder           | thing     | hang
mirror       | mirrors       | der Spiegel         | Spiegels        | Spiegel          | thing     | hang
flower       | flowers       | die Blume           | Blume           | Blumen           | thing     |
gift         | gifts         | das Geschenk        | Geschenks       | Geschenke        | thing     | lie
ball         | balls         | der Ball            | Balles          | Bälle            | thing     | lie
ticket       | tickets       | die Fahrkarte       | Fahrkarte       | Fahrkarten       | thing     | lie
table        | tables        | der Tisch           | Tisches         | Tische           | furniture | stand
chair        | chairs        | der Stuhl           | Stuhls          | Stühle           | furniture | stand
bed          | beds          | das Bett            | Bettes          | Betten           | furniture | stand
sofa         | sofas         | das Sofa            | Sofas           | Sofas            | furniture | stand
cupboard     | cupboards     | der Schrank         | Schranks        | Schränke         | furniture | stand
shelf        | shelves       | das Regal           | Regals          | Regale           | furniture | stand
car          | cars          | das Auto            | Autos           | Autos            | vehicle   | stand
bus          | buses         | der Bus             | Busses          | Busse            | vehicle   | stand
train        | trains        | der Zug             | Zuges           | Züge             | vehicle   |
bicycle      | bicycles      | das Fahrrad         | Fahrrads        | Fahrräder        | vehicle   | stand
ship         | ships         | das Schiff          | Schiffes        | Schiffe          | vehicle   |
boat         | boats         | das Boot            | Bootes          | Boote            | vehicle   |
plane        | planes        | das Flugzeug        | Flugzeugs       | Flugzeuge        | vehicle   |
taxi         | taxis         | das Taxi            | Taxis           | Taxis            | vehicle   | stand
door         | doors         | die Tür             | Tür             | Türen            | part      |
window       | windows       | das Fenster         | Fensters        | Fenster          | part      |
wall         | walls         | die Wand            | Wand            | Wände            | part      |
tree         | trees         | der Baum            | Baumes          | Bäume            | part      | stand
house        | houses        | das Haus            | Hauses          | Häuser           | place     | at=in:in to=zu
garden       | gardens       | der Garten          | Gartens         | Gärten           | place     | at=in:in to=in
park         | parks         | der Park            | Parks           | Parks            | place     | at=in:in to=in
school       | schools       | die Schule          | Schule          | Schulen          | place     | at=in:in to=in
city         | cities        | die Stadt           | Stadt           | Städte           | place     | at=in:in to=in
village      | villages      | das Dorf            | Dorfes          | Dörfer           | place     | at=in:in to=in
hotel        | hotels        | das Hotel           | Hotels          | Hotels           | place     | at=in:in to=in
restaurant   | restaurants   | das Restaurant      | Restaurants     | Restaurants      | place     | at=in:in to=in
kitchen      | kitchens      | die Küche           | Küche           | Küchen           | place     | at=in:in to=in
room         | rooms         | das Zimmer          | Zimmers         | Zimmer           | place     | at=in:in to=in
office       | offices       | das Büro            | Büros           | Büros            | place     | at=in:in to=in
museum       | museums       | das Museum          | Museums         | Museen           | place     | at=in:in to=in
church       | churches      | die Kirche          | Kirche          | Kirchen          | place     | at=in:in to=in
shop         | shops         | der Laden           | Ladens          | Läden            | place     | at=in:in to=in
hospital     | hospitals     | das Krankenhaus     | Krankenhauses   | Krankenhäuser    | place     | at=in:in to=in
library      | libraries     | die Bibliothek      | Bibliothek      | Bibliotheken     | place     | at=in:in to=in
theatre      | theatres      | das Theater         | Theaters        | Theater          | place     | at=in:in to=in
forest       | forests       | der Wald            | Waldes          | Wälder           | place     | at=in:in to=in
castle       | castles       | das Schloss         | Schlosses       | Schlösser        | place     | at=in:in to=zu
station      | stations      | der Bahnhof         | Bahnhofs        | Bahnhöfe         | place     | at=at:an to=zu
airport      | airports      | der Flughafen       | Flughafens      | Flughäfen        | place     | at=at:an to=zu
market       | markets       | der Markt           | Marktes         | Märkte           | place     | at=at:auf to=zu
bridge       | bridges       | die Brücke          | Brücke          | Brücken          | place     | at=on:auf to=zu
lake         | lakes         | der See             | Sees            | Seen             | place     | at=at:an to=zu
flat         | flats         | die Wohnung         | Wohnung         | Wohnungen        | place     | at=in:in to=in
party        | parties       | die Party           | Party           | Partys           | event     |
meeting      | meetings      | die Besprechung     | Besprechung     | Besprechungen    | event     |
concert      | concerts      | das Konzert         | Konzerts        | Konzerte         | event     |
exam         | exams         | die Prüfung         | Prüfung         | Prüfungen        | event     |
trip         | trips         | die Reise           | Reise           | Reisen           | event     |
course       | courses       | der Kurs            | Kurses          | Kurse            | event     |
game         | games         | das Spiel           | Spiels          | Spiele           | event     |
film         | films         | der Film            | Films           | Filme            | event     |
song         | songs         | das Lied            | Liedes          | Lieder           | idea      |
question     | questions     | die Frage           | Frage           | Fragen           | idea      |
answer       | answers       | die Antwort         | Antwort         | Antworten        | idea      |
problem      | problems      | das Problem         | Problems        | Probleme         | idea      |
plan         | plans         | der Plan            | Plans           | Pläne            | idea      |
mistake      | mistakes      | der Fehler          | Fehlers         | Fehler           | idea      |
dream        | dreams        | der Traum           | Traumes         | Träume           | idea      |
word         | words         | das Wort            | Wortes          | Wörter           | idea      |
language     | languages     | die Sprache         | Sprache         | Sprachen         | idea      |
result       | results       | das Ergebnis        | Ergebnisses     | Ergebnisse       | idea      |
invitation   | invitations   | die Einladung       | Einladung       | Einladungen      | idea      |
bill         | bills         | die Rechnung        | Rechnung        | Rechnungen       | idea      | lie
joke         | jokes         | der Witz            | Witzes          | Witze            | idea      |
address      | addresses     | die Adresse         | Adresse         | Adressen         | idea      |
music        | -             | die Musik           | Musik           | -                | mass      |
money        | -             | das Geld            | Geldes          | -                | mass      | lie
help         | -             | die Hilfe           | Hilfe           | -                | mass      |
weather      | -             | das Wetter          | Wetters         | -                | mass      |
rain         | -             | der Regen           | Regens          | -                | weather   |
snow         | -             | der Schnee          | Schnees         | -                | weather   |
storm        | storms        | der Sturm           | Sturms          | Stürme           | weather   |
noise        | -             | der Lärm            | Lärms           | -                | weather   |
"""

_GENDERS = {"der": "m", "die": "f", "das": "n"}


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """One noun. Forms that do not exist are empty strings; ``gender`` is m, f or n."""

    lemma: str
    en: str
    en_plural: str
    de: str
    gender: str
    genitive: str
    plural: str
    kind: str
    flags: frozenset[str] = frozenset()
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def countable(self) -> bool:
        """Whether the noun has both numbers (apple) rather than one (milk, parents)."""
        return bool(self.en and self.en_plural)


def _noun(line: str) -> Noun:
    cells = [cell.strip() for cell in line.split("|")]
    en, en_plural, german, genitive, plural, kind, flags = ["" if cell == "-" else cell for cell in cells]
    article, _, de = german.partition(" ")
    words = flags.split()
    facts = dict(word.split("=") for word in words if "=" in word)
    return Noun(
        lemma=en or en_plural,
        en=en,
        en_plural=en_plural,
        de="" if de == "-" else de,
        gender=_GENDERS[article],
        genitive=genitive,
        plural=plural,
        kind=kind,
        flags=frozenset(word for word in words if "=" not in word),
        facts=facts,
    )


NOUNS: dict[str, Noun] = {noun.lemma: noun for noun in map(_noun, _TABLE.strip().splitlines())}
"""Every noun by its English lemma, in the order of the table."""


def of_kind(kind: str) -> tuple[Noun, ...]:
    """The nouns of one kind, in the order of the table."""
    return tuple(noun for noun in NOUNS.values() if noun.kind == kind)


def flagged(flag: str) -> tuple[Noun, ...]:
    """The nouns that carry a flag or a fact of that name, in the order of the table."""
    return tuple(noun for noun in NOUNS.values() if flag in noun.flags or flag in noun.facts)

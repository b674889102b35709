"""What shows which language a text is in: its commonest words, and letters that others do without.

Nothing is trained: the tables below are all that is known. Everyday text of a language consists of its words here by a
third or more, that of another by a tenth or less, unless the two are relatives (da and no, cs and sk).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dragoman.text.scripts import UNSPACED

# Language -> words that make up a large part of any text of it, and few of any other's.
COMMON_WORDS = {
    code: frozenset(words.split())
    for code, words in {
        "en": "the of and to in is was that it for on with as he she his her be at by this have are from they we you "
        "not or a an but which will would there their what i my your one all has had were do does can who when",
        "de": "der die das und in zu den ist nicht von sie er es mit sich ein eine auf für dem des im auch als an nach "
        "wie ich wir ihr war hat haben sind einen einer eines bei aus aber oder wird noch nur über mein dein kein was",
        "fr": "le la les de des et un une du en est que qui dans pour pas sur au aux ne se ce il elle je nous vous ils "
        "avec par plus sont cette son sa ses mais ou où leur être avoir mon ton très c'est",
        "es": "el la los las de y que en un una es no por con para se lo su del al como más pero sus le ya o este "
        "porque está son muy yo tú nos qué hay fue ser cuando también mi",
        "it": "il lo la gli le di e che in un una è non per con si del della dei al alla sono come più ma anche io tu "
        "ho ha nel nella questo questa dal da mi ci molto era suo sua",
        "pt": "o a os as de e que em um uma é não por com para se do da dos das no na ao como mais mas foi seu sua ou "
        "está são eu você nos muito também isso ele ela meu minha",
        "nl": "de het een en van in is dat op te zijn met voor niet aan er om ook als maar bij nog uit hij zij ik wij "
        "je naar dan wordt heeft hebben deze die was werd kan mijn geen over",
        "sv": "och att det som en på är av för med till den har inte om ett han hon jag vi du de var från men ska kan "
        "så när sig eller också min din mycket efter vid",
        "da": "og at det som en på er af for med til den har ikke om et han hun jeg vi du de var fra men skal kan så "
        "når sig eller også min din meget efter ved",
        "no": "og at det som en på er av for med til den har ikke om et han hun jeg vi du de var fra men skal kan så "
        "når seg eller også min din veldig etter ved",
        "pl": "i w na z do się nie to jest że o jak za od po ale co tak przez dla czy są był była jego jej ich tym "
        "który która już tylko może bardzo ja ty on ona",
        "cs": "a v na se je že to s z do o i ve k jako za po pro ale by jsem jsou byl byla který která co tak už jen "
        "jeho její také nebo když velmi já ty on ona",
        "ro": "și în de la cu pe un o este nu că pentru care din mai sunt a fost se ce dar sau am are lui ei acest "
        "această foarte eu tu el ea",
        "fi": "ja on ei se että hän oli mutta ovat kun niin myös kuin joka mitä tämä minä sinä me he ole olen kanssa "
        "jos vain nyt hyvin",
        "hu": "a az és hogy nem is egy ez van volt meg csak de mint már el még ki ha én te mi ők nagyon azt vagy lesz",
        "tr": "ve bir bu da de için ile çok ne o ben sen biz var yok daha gibi ama olarak olan değil mi en sonra kadar",
        "ru": "и в не на я что он с как это по но они к у ты из мы за вы так же от она его её был была есть для или",
        "uk": "і в не на я що він з як це по але вони до у ти із ми за ви так же від вона його її був була є для або",
        "bg": "и в не на аз че той с как това по но те към ти от ние за вие така е са се да ще или беше",
        "ca": "el la els les de i que en un una no és per amb es del al com més però va són ha què molt aquest "
        "aquesta també hi ho seva seu jo tu ell",
        "af": "die van en in is het dat nie te ek hy sy ons vir met op aan was om sal as maar wat by jy hulle n",
        "is": "og að í á er það sem ekki við var til um en ég þú hann hún af með fyrir þetta hefur þess eru frá mjög",
        "sk": "a v na sa je že to s z do o aj ako za po pre ale by som bol bola boli ktorý ktorá čo tak už len jeho "
        "jej tiež alebo keď veľmi ja ty on ona nie sú",
        "sl": "in v na je se da so ki za z s ne pa po od do bi tudi kot ali še že pri kako ni bil bila sem smo ste "
        "to ta zelo jaz ti on ona",
        "hr": "i u je se na da su za od s o ne koji koja što kao će sam bi ali ili iz do po biti bio bila to ova "
        "ovaj vrlo ja ti on ona nije samo",
        "et": "ja on ei et see ta oli mis kui ka aga ma sa me te nad mida oma või siis veel seda tema kes väga olen "
        "oled pole",
        "lv": "un ir ar no uz par ka kas tas to viņš viņa es tu mēs ne bija kā lai pie pēc vai bet arī nav ļoti šis "
        "būs",
        "lt": "ir yra į iš su kad tai ne bet kaip jis ji aš tu mes jie buvo už ar nuo po apie dar tik labai kas šis "
        "mano jo",
        "id": "yang dan di itu dengan untuk tidak ini dari dalam akan pada ke adalah saya dia kamu mereka kami ada "
        "juga sudah bisa karena oleh atau sangat seorang sebuah",
        "vi": "và của là có không được cho một những các trong người này với đã để đến khi ở tôi anh bạn chúng nó "
        "rất cũng ra như",
        "eo": "la de en kaj al estas ne mi vi li ŝi ni ili por kun pri sur tio kiu kio ĉu sed ke estis tre pli el "
        "oni aŭ",
        "be": "і ў не на я што ён з як гэта па але яны да ты мы за вы так жа ад яна яго яе быў была ёсць для або",
        "mk": "и во на да не се од што го за со е си ги ја ќе беше како тоа но по до сум ти тој таа или многу само има",
        "ar": "في من على إلى أن لا ما هذا هذه التي الذي كان مع عن هو هي هل لم قد كل أو أنا أنت ليس كانت",
        "fa": "و در به از که این را با است آن برای یک من تو او ما شما نمی می هم بود خود تا هر یا اما باید",
        "ur": "کے ہے میں کی اور کا سے کو نے پر یہ نہیں ہیں کہ وہ بھی تھا اس ایک جو ہو تھی گیا",
    }.items()
}
# Language -> letters that its neighbours in the alphabet do without.
COMMON_LETTERS = {
    "de": "äöüß", "fr": "éèêàçùœîôû", "es": "ñ¿¡áíóú", "it": "àèìòù", "pt": "ãõçâê", "sv": "åäö", "da": "æøå",
    "no": "æøå", "pl": "ąćęłńśźż", "cs": "ěščřžůťď", "ro": "ăâîșț", "fi": "äö", "hu": "őűáé", "tr": "ğışç",
    "ru": "ыэъё", "uk": "іїєґ", "bg": "ъщ",
    "zh": "的了你她这们说书个么为门马时对没吗吧呢着过這們說書個麼為門馬時對沒嗎過",
    "ja": "のにはをたがでてとしれさいるすまもなこ",
}  # fmt: skip
# Languages without spaces between words: there single characters are what comes often.
_UNSPACED_LANGUAGES = frozenset(("zh", "ja"))
# The languages of which something is known that every text shows.
KNOWN = (*COMMON_WORDS, *sorted(_UNSPACED_LANGUAGES))
# ISO 639-2 and 639-3 codes, and those of macrolanguages' parts, of the languages above.
_SHORT = {
    long: code
    for code, codes in {
        "en": "eng", "de": "deu ger", "fr": "fra fre", "es": "spa", "it": "ita", "pt": "por", "nl": "nld dut",
        "sv": "swe", "da": "dan", "no": "nor nb nob", "pl": "pol", "cs": "ces cze", "ro": "ron rum", "fi": "fin",
        "hu": "hun", "tr": "tur", "ru": "rus", "uk": "ukr", "bg": "bul", "ca": "cat", "af": "afr", "is": "isl ice",
        "sk": "slk slo", "sl": "slv", "hr": "hrv", "et": "est ekk", "lv": "lav lvs", "lt": "lit", "id": "ind",
        "vi": "vie", "eo": "epo", "be": "bel", "mk": "mkd mac", "ar": "ara arb",
        "fa": "fas per pes", "ur": "urd", "zh": "zho chi cmn", "ja": "jpn",
    }.items()
    for long in codes.split()
}  # fmt: skip
_WORD = re.compile(rf"[{UNSPACED}]|[^\W\d_{UNSPACED}]+(?:'[^\W\d_{UNSPACED}]+)?")


def language_of(code: str) -> str:
    """The language of a code as the tables name it: ``de`` for ``de-AT``, ``DE`` and ``deu_Latn``."""
    first = re.split("[-_]", code.lower())[0]
    return _SHORT.get(first, first)


def common_signs(language: str) -> frozenset[str]:
    """The commonest words of a language, or characters where it puts no spaces; none of a language that is unknown."""
    if language in _UNSPACED_LANGUAGES:
        return frozenset(COMMON_LETTERS[language])
    return COMMON_WORDS.get(language, frozenset())


def signs(text: str) -> Iterator[str]:
    """The words of a text in lower case, without numbers, and each letter of scripts without spaces."""
    return (word for found in _WORD.finditer(text.lower()) if (word := found.group())[0].isalpha())

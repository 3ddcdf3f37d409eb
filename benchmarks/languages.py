"""Are memories found in other languages than English, by their words and by their meaning?

Eight notes in each language, one user each. Every note is asked for by its words in several guises (the word itself,
part of a compound, another inflection, another spelling), with keywords alone and with the model, and wanted in the
first place; then in other words of the same language, with the model, and wanted among the first three.

    python -m benchmarks.languages [--json FILE]
"""

import argparse
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from benchmarks.bars import write_json
from r3_lite.engine import Engine
from r3_lite.settings import load_settings


@dataclass(frozen=True, slots=True)
class Note:
    """A memory, what finds it by its words (separated by "|"), and a question in other words."""

    text: str
    queries: str
    paraphrase: str


NOTES: dict[str, tuple[Note, ...]] = {
    "German": (
        Note(
            "Meine Krankenversicherung läuft über die Techniker Kasse.",
            "Krankenversicherung|Versicherung|Versicherungen|Wer ist meine Krankenkasse Techniker?",
            "Bei wem bin ich für Arztkosten abgesichert?",
        ),
        Note(
            "Die Auslandskrankenschutzbriefe liegen im blauen Ordner.",
            "Schutzbrief|Auslandskrankenschutzbrief|blauer Ordner",
            "Wo finde ich die Reisepapiere für Notfälle?",
        ),
        Note(
            "Der Ersatzschlüssel hängt bei Frau Müller im Treppenhaus.",
            "Ersatzschlüssel|Schluessel|schlussel|Mueller|Treppe",
            "Wer kann mir die Tür aufsperren, wenn ich mich ausgeschlossen habe?",
        ),
        Note(
            "Unsere Straße wird ab Montag wegen Bauarbeiten gesperrt.",
            "Straße|Strasse|Straßen|Bauarbeit|Sperrung gesperrte",
            "Kann ich nächste Woche vor dem Haus parken?",
        ),
        Note(
            "Zum Geburtstag wünscht sich Opa ein Vogelhäuschen.",
            "Geburtstag|Geburtstage|Vogel|Häuschen|Vogelhaeuschen|Wunsch wünschen",
            "Was schenken wir Großvater?",
        ),
        Note(
            "Das Passwort vom WLAN-Router steht unter dem Gerät.",
            "Passwörter|WLAN|Router|Geräte|Geraet",
            "Wie komme ich zu Hause ins Internet?",
        ),
        Note(
            "Jeden Dienstag spielt Lena im Schulorchester Geige.",
            "Orchester|Geigen|Dienstags|Schule",
            "Welches Instrument lernt unsere Tochter?",
        ),
        Note(
            "Die Waschmaschinenreparatur kostete 180 Euro.",
            "Reparatur|Waschmaschine|Reparaturen",
            "Wie teuer war der Handwerker für das Haushaltsgerät?",
        ),
    ),
    "Spanish": (
        Note(
            "La contraseña del correo está en el cajón.",
            "contraseña|contrasena|contraseñas|cajones",
            "¿Cómo entro en mi buzón electrónico?",
        ),
        Note("Mi hermana vive en Córdoba con sus dos perros.", "Cordoba|perro|hermanas", "¿Dónde reside mi familiar?"),
        Note(
            "El médico me recetó pastillas para la alergia.",
            "medico|receta recetas|pastilla|alérgico alergias",
            "¿Qué tomo contra el polen?",
        ),
        Note(
            "Compré un paraguas nuevo en el mercado de los domingos.",
            "comprar|paraguas|agua|mercados|domingo",
            "¿Qué uso cuando llueve?",
        ),
        Note(
            "La reunión con los arquitectos será el jueves.",
            "reunion|reuniones|arquitecto",
            "¿Cuándo hablamos de los planos de la casa?",
        ),
        Note(
            "A mi abuelo le gusta el café sin azúcar.",
            "cafe|azucar|abuelos|azucarado",
            "¿Qué bebida amarga prefiere el padre de mi madre?",
        ),
        Note(
            "El vuelo a Bogotá sale de la terminal cuatro.",
            "Bogota|vuelos|terminales",
            "¿Por dónde embarco en el avión?",
        ),
        Note(
            "Necesitamos pintura blanca para el pasillo.",
            "pinturas|blanco|pasillos|necesito",
            "¿De qué color van las paredes de la entrada?",
        ),
    ),
    "French": (
        Note(
            "Le mot de passe du réseau est collé sur la boîte.",
            "réseau|reseau|réseaux|boite",
            "Comment se connecter à internet ?",
        ),
        Note("Ma sœur étudie la médecine à Lyon.", "soeur|sœur|etudie|étudier|medecin", "Qui va devenir docteur ?"),
        Note(
            "Le chauffe-eau a été remplacé en février.",
            "chauffe|fevrier|remplacer|remplacement",
            "Quand a-t-on changé l'appareil de la salle de bain ?",
        ),
        Note(
            "J'ai réservé une table au restaurant japonais.",
            "reserver|réservation|restaurants|japonaise",
            "Où allons-nous dîner ?",
        ),
        Note(
            "Les clés de la voiture sont dans l'entrée.",
            "cle cles|clés|voitures|entree",
            "Comment démarrer l'automobile ?",
        ),
        Note(
            "Papa est allergique aux arachides.",
            "allergies|allergique|arachide",
            "Quels aliments mon père doit-il éviter ?",
        ),
        Note(
            "Notre anniversaire de mariage tombe un samedi.",
            "mariages|anniversaires|samedis",
            "Quel jour fête-t-on notre union ?",
        ),
        Note(
            "L'autoroute sera fermée pour travaux cette nuit.",
            "route|fermee|fermeture|nuits",
            "Peut-on rouler ce soir vers le sud ?",
        ),
    ),
    "Russian": (
        Note(
            "Я купил новую книгу о морских птицах.",
            "книга|книги|книгу|птица|морская|купить",
            "Что я читаю про чаек?",
        ),
        Note(
            "Ёлка стоит в углу гостиной до января.",
            "елка|ёлка|ёлку|гостиная|январь|угол углу",
            "Где новогоднее дерево?",
        ),
        Note(
            "Пароль от почты записан в зелёной тетради.",
            "пароли|почта|зеленый|зелёная|тетрадь",
            "Как войти в электронный ящик?",
        ),
        Note(
            "Мама работает врачом в областной больнице.",
            "врач|больница|область|работа",
            "Кто в семье лечит людей?",
        ),
        Note(
            "Железнодорожный билет до Казани лежит в сумке.",
            "билеты|дорожный|Казань|сумка|железнодорожные",
            "Где документ на поезд?",
        ),
        Note(
            "У Маши аллергия на арахис и клубнику.",
            "Маша|аллергии|клубника|аллергию",
            "Что девочке нельзя есть?",
        ),
        Note(
            "Собака боится грозы и прячется под кровать.",
            "собаку|собаки|гроза|кровати",
            "Чего пугается наш пёс?",
        ),
        Note(
            "Встреча с архитекторами перенесена на четверг.",
            "встречу|архитектор|четверга|перенести",
            "Когда обсуждаем проект дома?",
        ),
    ),
    "Arabic": (
        Note(
            "وضعت الكتاب الجديد على الطاولة في غرفة النوم.",
            "كتاب|الكتاب|كِتَاب|طاولة|غرفه|والكتاب",
            "أين المجلد الذي أقرؤه؟",
        ),
        Note(
            "أحمد يعمل طبيبا في المستشفى العام.",
            "احمد|أحمد|مستشفي|مستشفى|طبيب|الطبيب",
            "من يعالج المرضى؟",
        ),
        Note(
            "كلمة السر مكتوبة في الدفتر الأزرق.",
            "دفتر|الازرق|أزرق|كلمه السر|مكتوب",
            "كيف أدخل إلى حسابي؟",
        ),
        Note(
            "تسكن أُخْتِي في مدينة الإسكندرية مع أولادها.",
            "اختي|أختي|اسكندرية|الاسكندريه|مدينه|أولاد",
            "أين تقيم شقيقتي؟",
        ),
        Note(
            "موعد الطائرة إلى القاهرة يوم الخميس.",
            "طائرة|القاهره|قاهرة|خميس|طـــائرة",
            "متى السفر جوا؟",
        ),
        Note(
            "القطة البيضاء تخاف من صوت الرعد.",
            "قطة|القطه|رعد|بيضاء",
            "ما الذي يفزع الحيوان الأليف؟",
        ),
        Note(
            "يفضل جدي القهوة بدون سكر.",
            "قهوة|القهوه|السكر|جدي",
            "ماذا يشرب والد أبي؟",
        ),
        Note(
            "اشتريت سيارة حمراء من المعرض.",
            "سيارات|السيارة|سياره|معرض|حمراء",
            "ما المركبة التي أملكها؟",
        ),
    ),
    "Hebrew": (
        Note("הספר החדש נמצא על השולחן בסלון.", "ספר|שולחן|הסלון|סֵפֶר", "איפה מה שאני קורא?"),
        Note("אחותי גרה בחיפה עם שני כלבים.", "חיפה|כלב|כלבים|אחות", "היכן מתגוררת בת משפחתי?"),
        Note("הסיסמה כתובה במחברת הכחולה.", "סיסמה|מחברת|כחולה", "איך נכנסים לחשבון?"),
        Note("שָׁלוֹם רב לדודה מרים מירושלים.", "שלום|ירושלים|דודה", "מי שלח ברכות מהבירה?"),
        Note("הרופא רשם לי כדורים נגד אלרגיה.", "רופא|כדור|האלרגיה", "מה אני לוקח באביב?"),
        Note("הטיסה לפריז יוצאת ביום חמישי.", "טיסה|טיסות|פריז|חמישי", "מתי ממריאים לצרפת?"),
        Note("סבא אוהב קפה בלי סוכר.", "הקפה|הסוכר|סבא", "איזה משקה מעדיף אבא של אמא?"),
        Note("קניתי מטרייה אדומה בשוק.", "מטריות|המטרייה|שוק|אדום", "מה יש לי לגשם?"),
    ),
    "Hindi": (
        Note("मैंने समुद्री पक्षियों पर एक नई किताब खरीदी।", "किताब|किताबें|ख़रीदी|पक्षी", "मैं क्या पढ़ रहा हूँ?"),
        Note("लड़का रोज़ सुबह मैदान में दौड़ता है।", "लड़के|लडका|रोज|मैदानों|दौड़ना", "बच्चा व्यायाम कब करता है?"),
        Note("मेरी बहन दिल्ली के अस्पताल में डॉक्टर है।", "बहनें|दिल्ली|अस्पतालों|डॉक्टरों", "परिवार में इलाज कौन करता है?"),
        Note("पासवर्ड नीली डायरी में लिखा हुआ है।", "पासवर्ड|नीला|डायरियाँ|लिखना", "खाते में कैसे जाऊँ?"),
        Note("दादाजी को बिना चीनी की चाय पसंद है।", "दादा|चीनी|पसंदीदा|चाय", "बुज़ुर्ग क्या पीते हैं?"),
        Note("गाड़ी की चाबियाँ रसोई की दराज में हैं।", "चाबी|चाबियां|गाडी|गाड़ियाँ|दराज", "कार कैसे चालू करूँ?"),
        Note("बैठक गुरुवार को तीन बजे होगी।", "बैठकें|गुरुवार|बैठक", "हम टीम से कब मिलेंगे?"),
        Note("कुत्ता बिजली की गरज से डरता है।", "कुत्ते|बिजली|गरजना", "पालतू जानवर किससे घबराता है?"),
    ),
    "Chinese": (
        Note("我妹妹在北京大学附属医院当护士。", "医院|护士|北京|大学", "家里谁照顾病人？"),
        Note("备用钥匙放在邻居王阿姨家里。", "钥匙|邻居|王阿姨|备用", "被锁在门外怎么办？"),
        Note("服务器SRE4711每周三凌晨重启。", "SRE4711|重启|服务器|周三", "哪台机器会定时关机？"),
        Note("爷爷喜欢喝不加糖的龙井茶。", "龙井|茶|爷爷|糖", "老人家爱什么饮料？"),
        Note("路由器的密码贴在设备底部。", "密码|路由器|底部", "怎么连上无线网络？"),
        Note("小明对花生和虾过敏。", "花生|虾|过敏", "孩子不能吃什么？"),
        Note("星期四和建筑师开会讨论图纸。", "建筑|图纸|开会|星期四", "什么时候谈房子的设计？"),
        Note("去上海的高铁票在蓝色背包里。", "高铁|上海|背包", "出行的凭证在哪儿？"),
    ),
    "Japanese": (
        Note("妹は東京都立病院で看護師をしています。", "病院|看護師|東京|妹", "家族で医療に携わるのは誰？"),
        Note("合鍵は隣の佐藤さんに預けてあります。", "合鍵|佐藤|隣|鍵", "家に入れないときはどうする？"),
        Note("サーバーWEB01は毎週水曜に再起動する。", "WEB01|再起動|ｻｰﾊﾞｰ|水曜", "定期的に止まる機械は？"),
        Note("祖父は砂糖なしのコーヒーが好きです。", "コーヒー|砂糖|祖父|ｺｰﾋｰ", "おじいちゃんの飲み物は？"),
        Note("ルーターのパスワードは裏面に貼ってある。", "パスワード|ルーター|裏面", "無線につなぐには？"),
        Note("太郎はピーナッツとエビのアレルギーがある。", "アレルギー|エビ|ピーナッツ", "子の食べられない物は？"),
        Note("木曜日に建築家と図面を打ち合わせる。", "建築|図面|木曜", "家の設計の話はいつ？"),
        Note("京都行きの新幹線の切符は青い鞄の中。", "切符|京都|新幹線|鞄", "旅行の乗車券はどこ？"),
    ),
    "Korean": (
        Note("여동생은 서울대학교병원에서 간호사로 일한다.", "병원|간호사|서울|여동생", "환자를 돌보는 가족은?"),
        Note("예비 열쇠는 옆집 김 선생님이 가지고 있다.", "열쇠|옆집|선생님", "문이 잠기면 어떻게 하지?"),
        Note("서버DB07은 매주 수요일에 재시작한다.", "DB07|서버|수요일|재시작", "정기적으로 꺼지는 기계는?"),
        Note("할아버지는 설탕 없는 커피를 좋아하신다.", "커피|설탕|할아버지", "어르신이 즐겨 마시는 것은?"),
        Note("공유기의 비밀번호는 바닥에 붙어 있다.", "비밀번호|공유기|번호", "무선 인터넷에 어떻게 접속하지?"),
        Note("민수는 땅콩과 새우에 알레르기가 있다.", "땅콩|새우|알레르기", "아이가 먹으면 안 되는 음식은?"),
        Note("목요일에 건축가와 도면을 논의한다.", "목요일|건축|도면", "집 설계 회의는 언제?"),
        Note("부산행 기차표는 파란 가방 안에 있다.", "부산|기차표|기차|가방", "여행 승차권은 어디에?"),
    ),
    "Thai": (
        Note("น้องสาวของฉันเป็นพยาบาลที่โรงพยาบาลรามา", "โรงพยาบาล|พยาบาล|น้องสาว", "ใครในครอบครัวดูแลคนป่วย"),
        Note("กุญแจสำรองอยู่กับเพื่อนบ้านชื่อสมชาย", "กุญแจ|สมชาย|เพื่อนบ้าน", "ถ้าเข้าบ้านไม่ได้ต้องทำอย่างไร"),
        Note("เครื่องเซิร์ฟเวอร์APP22รีสตาร์ททุกวันพุธ", "APP22|รีสตาร์ท|วันพุธ", "อะไรดับเป็นประจำ"),
        Note("คุณปู่ชอบดื่มกาแฟไม่ใส่น้ำตาล", "กาแฟ|น้ำตาล|ปู่", "ผู้สูงอายุชอบเครื่องดื่มแบบไหน"),
        Note("รหัสผ่านของเราเตอร์ติดอยู่ใต้เครื่อง", "รหัสผ่าน|เราเตอร์", "จะต่ออินเทอร์เน็ตได้อย่างไร"),
        Note("มานะแพ้ถั่วลิสงและกุ้ง", "ถั่วลิสง|กุ้ง|มานะ", "เด็กกินอะไรไม่ได้"),
        Note("ประชุมกับสถาปนิกเรื่องแบบแปลนวันพฤหัส", "สถาปนิก|แบบแปลน|พฤหัส", "คุยเรื่องออกแบบบ้านเมื่อไร"),
        Note("ตั๋วรถไฟไปเชียงใหม่อยู่ในกระเป๋าสีฟ้า", "ตั๋ว|รถไฟ|เชียงใหม่|กระเป๋า", "เอกสารเดินทางอยู่ที่ไหน"),
    ),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many queries by words found their note first, without and with a model, and how many paraphrases found it."""

    queries: int
    keywords_alone: int
    with_model: int
    paraphrases: int
    among_three: int


def missed(engine: Engine, language: str, user_id: str, best: int, *, paraphrased: bool) -> list[tuple[str, str]]:
    """Return (query, note) of what is not among the `best` first hits of a user who has the notes stored."""
    failures = []
    for note in NOTES[language]:
        for query in [note.paraphrase] if paraphrased else note.queries.split("|"):
            hits = engine.search(user_id, query, limit=best).ranking.hits
            if note.text not in [hit.record.content for hit in hits]:
                failures.append((query, note.text))
    return failures


def store_notes(engine: Engine, language: str, user_id: str, *, wait: bool) -> None:
    """Store the notes of a language for a user, with their vectors if asked to wait for them."""
    for note in NOTES[language]:
        engine.add(user_id, note.text, wait=wait)


def measure(language: str, folder: Path) -> Outcome:
    """Ask for every note of a language by its words, without a model and with it, and in other words with it."""
    queries, notes = sum(len(note.queries.split("|")) for note in NOTES[language]), len(NOTES[language])
    basic = Engine(load_settings(db_path=folder / f"{language}-basic.db", intelligence="basic"))
    store_notes(basic, language, language, wait=False)
    keywords_alone = queries - len(missed(basic, language, language, 1, paraphrased=False))
    basic.close()
    full = Engine(load_settings(db_path=folder / f"{language}-full.db", intelligence="full"))
    full.encoder.load()
    store_notes(full, language, language, wait=True)
    with_model = queries - len(missed(full, language, language, 1, paraphrased=False))
    among_three = notes - len(missed(full, language, language, 3, paraphrased=True))
    full.close()
    return Outcome(queries, keywords_alone, with_model, notes, among_three)


def main() -> None:
    """Measure every language with the model of the settings and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    table = Table(
        "language", "keywords alone, first", "with model, first", "in other words, first three", title=_model()
    )
    figures: dict[str, dict[str, int]] = {}
    with TemporaryDirectory() as folder:
        for language in NOTES:
            got = measure(language, Path(folder))
            table.add_row(
                language,
                f"{got.keywords_alone}/{got.queries}",
                f"{got.with_model}/{got.queries}",
                f"{got.among_three}/{got.paraphrases}",
            )
            figures[language] = asdict(got)
    Console().print(table)
    write_json(options.json, [], figures)


def _model() -> str:
    return os.environ.get("R3_EMBEDDING_MODEL", "bundled model")


if __name__ == "__main__":
    main()

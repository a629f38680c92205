"""The pages in Chromium, used as a person would."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

from ku_rag import KnowledgeBase, Unit
from ku_rag.serve.app import create_app
from tests.serve.conftest import application, listening

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome is installed"),
]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        options = ["--disable-gpu", "--no-sandbox"]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture
def address(served, request):
    """The address of a server of the fruit base."""
    with listening(application(served, **getattr(request, "param", {}))) as address:
        yield address


@pytest.fixture
def page(browser, address):
    """A page that records script errors and requests that the security policy blocks."""
    errors = []
    with browser.new_context(base_url=address, viewport={"width": 390, "height": 800}) as context:
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda log: errors.append(log.text) if "Policy" in log.text else None)
        yield page
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert errors == []


def ask(page, question):
    page.get_by_label("Question").fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()
    page.get_by_role("region", name="Answer").wait_for()


def test_a_picture_is_asked_about_and_the_answer_cites(page, fruit_base):
    page.goto("/")
    page.get_by_label("Picture").set_input_files(fruit_base / "Mango" / "photo.png")
    ask(page, "Which country does it come from?")
    assert page.get_by_role("heading", name="Peru").is_visible()
    assert page.locator("#picture rect").bounding_box()["width"] > 10
    assert "Peru" in page.locator("article.cited mark").inner_text()
    page.locator(".units").get_by_role("link", name="Mango").click()
    page.get_by_role("heading", name="Mango").wait_for()


@pytest.mark.parametrize("event", ["paste", "drop"])
def test_a_picture_is_pasted_or_dropped(page, fruit_base, event):
    page.goto("/")
    page.evaluate(
        """([event, bytes]) => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], "a.png", {type: "image/png"}));
            const made = {clipboardData: data, dataTransfer: data, bubbles: true};
            const Event = {paste: ClipboardEvent, drop: DragEvent}[event];
            document.querySelector("#ask").dispatchEvent(new Event(event, made));
        }""",
        [event, list((fruit_base / "Mango" / "photo.png").read_bytes())],
    )
    page.get_by_alt_text("Your picture").wait_for()
    ask(page, "What is this?")
    assert page.locator("#picture rect").bounding_box()["width"] > 10


def test_a_question_is_asked_with_the_keyboard_and_planned(page):
    page.goto("/")
    names = []
    for key in ["Tab"] * 8 + ["Enter", "Tab"]:
        page.keyboard.press(key)
        names.append(page.evaluate("(one => one.name || one.textContent)(document.activeElement)"))
    expected = ["Ask", "Units", "Graph", "Answers", "See them all", "image", "question"]
    expected += ["Options", "Options", "plan"]
    assert names == expected
    page.keyboard.press("s")
    page.get_by_label("Question").fill("How many moons has the Mango?")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="No certain answer was found.").wait_for()
    assert page.get_by_role("heading", name="Rounds").is_visible()
    page.locator("[role=status]", has_text="No certain answer was found").wait_for()


def test_an_answer_is_shared_corrected_and_deleted(page, served, fruit_base):
    page.goto("/")
    page.get_by_label("Picture").set_input_files(fruit_base / "Mango" / "photo.png")
    ask(page, "Which country does it come from?")
    page.wait_for_url(re.compile("/answers/[0-9a-f]{16}$"))
    page.reload()
    assert page.get_by_role("heading", name="Peru").is_visible()
    assert page.locator(".boxed rect:visible").bounding_box()["width"] > 10
    page.get_by_role("button", name="Right").click()
    page.get_by_text("Feedback: right.").wait_for()
    page.get_by_text("Correct this answer").click()
    page.get_by_label("The right answer").fill("Chile")
    page.get_by_label("The picture shows the unit").fill("Kiwi")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Feedback: wrong, the right answer is Chile, about Kiwi.").wait_for()
    page.emulate_media(media="print")
    assert page.get_by_role("heading", name="Peru").is_visible()
    for hidden in ("nav", "form", "summary"):
        assert not page.locator(hidden).first.is_visible()
    page.emulate_media(media="screen")
    page.get_by_role("link", name="Answers").click()
    page.get_by_role("link", name="Which country").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Report as a file").click()
    assert "Peru" in Path(download.value.path()).read_text("utf-8")
    page.get_by_role("button", name="Delete this answer").click()
    page.get_by_text("No answer is stored yet").wait_for()
    assert served.answers.list() == []


def test_an_answer_is_judged_with_the_keyboard_alone(page, served):
    page.goto("/")
    ask(page, "Which country does the Mango come from?")
    page.wait_for_url(re.compile("/answers/"))
    page.reload()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.value") == "wrong":
            break
    page.keyboard.press("Enter")
    page.get_by_text("Feedback: wrong.").wait_for()
    assert [stored.verdict for stored in served.answers.list()] == ["wrong"]


def test_a_unit_is_added_edited_and_deleted(page, tmp_path):
    Image.new("RGB", (200, 150), "blue").save(tmp_path / "blue.png")
    page.goto("/units")
    page.get_by_text("Add a unit").click()
    page.get_by_label("Name", exact=True).fill("Blue lamp/1 ü%")
    page.get_by_label("Text 1").fill("It is blue. <script>alert(1)</script>")
    page.get_by_label("Pictures to add").set_input_files(tmp_path / "blue.png")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("heading", name="Blue lamp/1 ü%").wait_for()
    assert page.get_by_alt_text("Picture 1", exact=True).is_visible()
    page.get_by_text("Edit or delete").click()
    page.get_by_label("Kind").fill("lamp")
    page.get_by_label("Text 2").fill("It is heavy.")
    page.get_by_role("button", name="Save").click()
    page.locator("p.text", has_text="It is heavy.").wait_for()
    change = page.get_by_role("group", name="Change of kind, texts").first
    assert change.locator("del").all_inner_texts() == ["entity"]
    assert change.locator("ins").all_inner_texts() == ["lamp", "It is heavy."]
    assert page.locator("p.text").count() == 2
    assert page.get_by_alt_text("Picture 1", exact=True).is_visible()
    page.get_by_text("Edit or delete").click()
    Image.new("RGB", (200, 150), "red").save(tmp_path / "red.png")
    page.get_by_label("Pictures to add").set_input_files(tmp_path / "red.png")
    page.get_by_role("checkbox").uncheck()
    page.get_by_label("Relations").fill("stands on | Floor\nlights | Hall | dimly | at night")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Hall (dimly) (at night)").wait_for()
    assert page.locator("main > figure > a > img").count() == 1
    page.get_by_text("Edit or delete").click()
    assert page.get_by_role("textbox", name="Relations").input_value().splitlines() == [
        "stands on | Floor", "lights | Hall | dimly | at night",
    ]  # fmt: skip
    questions = []
    page.once("dialog", lambda dialog: (questions.append(dialog.message), dialog.dismiss()))
    page.get_by_role("button", name="Delete").click()
    assert questions == ["Delete this unit and its contents?"]
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("heading", name="Units").wait_for()
    assert page.get_by_role("link", name="Blue lamp").count() == 0


def test_a_unit_that_was_changed_meanwhile_is_kept(page, served):
    page.goto("/units/Mango")
    served.update("Mango", kind="fruit")
    page.get_by_text("Edit or delete").click()
    page.get_by_label("Kind").fill("tree")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("was changed meanwhile").wait_for()
    assert served.show("Mango").kind == "fruit"


def test_units_are_searched_and_neighbours_are_links(page, served):
    served.graph.add_relation("Mango", "grows in", "Peru")
    page.goto("/units")
    page.get_by_label("Text", exact=True).fill("sweet")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url(re.compile("text=sweet"))
    page.get_by_role("link", name="Mango").first.click()
    page.get_by_role("link", name="Draw two steps").click()
    page.locator(".drawing a", has_text="Peru").click()
    page.get_by_role("heading", name="Peru").wait_for()


@pytest.fixture
def shop(served, fruit_base):
    """Sixty tools with colours and prices, and the fruits; one tool looks like the Mango."""
    photo = fruit_base / "Mango" / "photo.png"
    served.add_many(
        Unit(
            f"Tool {number:02}",
            id=f"tool-{number:02}",
            kind="tool",
            images=[photo] if number == 7 else [],
            metadata={"colour": ["red", "blue", "green"][number % 3], "price": number},
        )
        for number in range(60)
    )
    return served


@pytest.fixture(params=[(1280, True), (390, True), (1280, False), (390, False)], ids=str)
def any_page(browser, address, request):
    """A page at two widths, with and without scripts."""
    width, has_scripts = request.param
    viewport = {"width": width, "height": 800}
    options = {"viewport": viewport, "java_script_enabled": has_scripts}
    with browser.new_context(base_url=address, **options) as context:
        page = context.new_page()
        page.set_default_timeout(10_000)
        yield page


def names(page):
    return [name.strip() for name in page.locator(".gallery li:visible a").all_inner_texts()]


def test_units_are_narrowed_down_by_facets(shop, any_page):
    page = any_page
    page.goto("/units")
    page.get_by_role("combobox", name="Kind").select_option("tool")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="green", exact=True).click()
    assert names(page)[:2] == ["Tool 02", "Tool 05"]
    assert page.locator("p", has_text="colour:").locator("b").inner_text() == "green"
    page.get_by_label("price from").fill("10")
    page.get_by_label("price to").fill("20")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="price>=10").wait_for()
    assert names(page) == ["Tool 11", "Tool 14", "Tool 17", "Tool 20"]
    page.get_by_role("link", name="colour=green").click()
    page.get_by_role("link", name="red", exact=True).wait_for()
    assert len(names(page)) == 11
    assert "where=price%3E%3D10" in page.url


def test_pages_of_units_have_numbers(shop, any_page):
    page = any_page
    page.goto("/units?kind=tool")
    assert len(names(page)) == 48
    page.get_by_role("link", name="2", exact=True).click()
    page.get_by_role("link", name="Previous").wait_for()
    assert names(page)[0] == "Tool 48"
    page.get_by_role("link", name="1", exact=True).click()
    page.get_by_role("link", name="Next").wait_for()
    assert names(page)[0] == "Tool 00"


def test_a_picture_finds_similar_units(shop, any_page, fruit_base, request):
    page, (_, has_scripts) = any_page, request.node.callspec.params["any_page"]
    page.goto("/units")
    page.get_by_label("Units like a picture").set_input_files(fruit_base / "Mango" / "photo.png")
    if not has_scripts:  # with them, choosing the file is enough
        page.get_by_role("button", name="Find similar").click()
    page.locator("[data-score]").first.wait_for()
    assert {"Mango", "Tool 07"} <= set(names(page))


def test_the_threshold_hides_units_and_keys_move_between_them(shop, page):
    page.goto("/units/Mango")
    page.get_by_role("link", name="Find similar").first.click()
    page.locator("[data-score]").first.wait_for()
    before = len(names(page))
    page.get_by_label("Lowest score").fill("0.9")
    remaining = names(page)
    assert set(remaining) == {"Mango", "Tool 07"}
    assert before >= 2
    page.keyboard.press("Tab")
    for key, place in [("j", 0), ("ArrowRight", 1), ("k", 0)]:
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.innerText.trim()") == remaining[place]
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=remaining[0]).wait_for()


def test_a_change_is_shown_and_undone(any_page, served):
    page = any_page
    page.goto("/units/Mango")
    page.get_by_text("Edit or delete").click()
    page.get_by_label("Name", exact=True).fill("Mango fruit")
    page.get_by_label("Text 1").fill("It is sour.")
    page.get_by_label("Relations").fill("grows in | Peru")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="Mango fruit").wait_for()
    assert served.show("Mango").texts == ("It is sour.",)
    change = page.get_by_role("group", name="Change of name").first
    assert change.locator("del").first.inner_text() == "Mango"
    change.get_by_role("button", name="Undo").click()
    page.get_by_role("heading", name="Mango", exact=False).wait_for()
    page.locator("p.text", has_text="It is sweet.").wait_for()
    unit = served.show("Mango")
    assert (unit.name, unit.relations) == ("Mango", ())
    page.get_by_text("History").click()
    assert page.locator("#history .change").count() == 2


def test_two_units_are_merged(any_page, served):
    served.add(Unit("Mangifera", id="m2", texts=["It is a tree."]))
    page = any_page
    page.goto("/units/Mango")
    page.get_by_text("Merge with another unit").click()
    page.get_by_label("is the same as").fill("Mangifera")
    page.get_by_role("button", name="Show both").click()
    merge = page.get_by_role("region", name="Merge")
    assert "Mangifera" in merge.inner_text()
    assert {unit.id for unit in served.list()} >= {"Mango", "m2"}
    merge.get_by_role("button", name="Merge").click()
    page.locator("p.text", has_text="It is a tree.").wait_for()
    assert served.show("Mangifera").id == "Mango"


def test_files_are_ingested_with_progress_and_what_is_left_out(page, tmp_path):
    file = tmp_path / "things.jsonl"
    records = [{"id": f"t{n}", "name": f"Thing {n}", "text": "It is."} for n in range(20)]
    file.write_text("\n".join(map(json.dumps, [*records, {"name": ""}])))
    page.goto("/units")
    page.get_by_text("Add files").click()
    page.get_by_label("Files").set_input_files(file)
    page.get_by_role("button", name="Upload").click()
    page.locator("#job [role=status]", has_text="done; units added: 20").wait_for()
    assert "things.jsonl" in page.locator("#job .text").inner_text()
    page.goto("/units/t7")
    assert page.get_by_role("heading", name="Thing 7").is_visible()


def test_an_ingest_that_left_something_out_is_tried_again(page, served):
    page.goto("/units")
    page.get_by_text("Add files").click()
    again = page.get_by_role("button", name="Try again")
    file = {"name": "x.xyz", "mimeType": "", "buffer": b"x"}
    page.get_by_label("Files").set_input_files(file)
    page.get_by_role("button", name="Upload").click()
    page.locator("#job .text", has_text="x.xyz").wait_for()
    with page.expect_response(re.compile("/retry$")) as response:
        again.click()
    assert response.value.status == 202
    again.wait_for()
    page.get_by_label("Files").set_input_files(file | {"name": "x.txt"})
    page.get_by_role("button", name="Upload").click()
    again.wait_for(state="hidden")


def test_a_unit_is_chosen_for_the_picture_that_is_shown(browser, fruit_base):
    with (
        KnowledgeBase.open(fruit_base.with_name("kb"), confidence_threshold=1) as kb,
        listening(application(kb, answers=0)) as address,
        browser.new_context(base_url=address) as context,
    ):
        page = context.new_page()
        page.goto("/")
        page.get_by_label("Picture").set_input_files(fruit_base / "Mango" / "photo.png")
        ask(page, "Which country does it come from?")
        page.get_by_role("button", name="Mango").click()
        page.get_by_role("heading", name="Peru").wait_for()
        assert page.get_by_alt_text("Your picture").is_visible()
        assert page.locator("#picture rect").bounding_box()["width"] > 10


@pytest.mark.parametrize("address", [{"keys": ["a;b c"]}], indirect=True)
def test_the_key_is_asked_for_once(page):
    page.goto("/units")
    page.get_by_label("Key").fill("a;b c")
    page.get_by_role("button", name="Continue").click()
    ask(page, "Which country does the Mango come from?")
    assert page.get_by_role("heading", name="Peru").is_visible()
    assert page.evaluate("document.cookie") == ""


def test_a_form_is_enough(browser, address, fruit_base):
    with browser.new_context(base_url=address, java_script_enabled=False) as context:
        page = context.new_page()
        page.goto("/")
        page.get_by_label("Picture").set_input_files(fruit_base / "Mango" / "photo.png")
        ask(page, "Which country does it come from?")
        assert page.get_by_role("heading", name="Peru").is_visible()
        address = page.url
        page.get_by_role("button", name="Right").click()
        page.get_by_text("Feedback: right.").wait_for()
        assert page.url == address
        page.get_by_label("Ask more about Mango").fill("How heavy is it?")
        page.get_by_role("button", name="Ask", exact=True).last.click()
        page.get_by_role("region", name="Answer").wait_for()
        page.get_by_role("link", name="Answers").click()
        assert page.get_by_role("listitem").count() == 2


def test_the_first_view_is_usable_soon(page):
    page.goto("/")  # the server renders its first page
    page.goto("/")
    timing = page.evaluate("performance.getEntriesByType('navigation')[0].toJSON()")
    assert timing["domInteractive"] < 1000


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_are_accessible_and_fit(browser, served, shop, fruit_base, scheme, width, request):
    """No page violates a rule of axe-core or is wider than the window; build/pages shows them."""
    axe = pytest.importorskip("axe_playwright_python", reason="it is not installed")
    shop.update("tool-01", name="Tool one", texts=["It is sharp."], metadata={"colour": "red"})
    rules = Path(axe.__file__).with_name("axe.min.js").read_text("utf-8")
    pictures = request.config.rootpath / "build" / "pages"
    photo, question = fruit_base / "Mango" / "photo.png", "Which country does it come from?"
    id = served.answers.add(served.query(photo, question), photo)
    for verdict, text in [("right", "What is a Mango?"), ("", "How many moons has the Mango?")]:
        served.answers.judge(served.answers.add(served.query(None, text)), verdict)
    served.answers.judge(id, "wrong", right_answer="Chile", unit="Kiwi")
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    folder = served.path.parent  # a server whose bases can change has the page of bases and keys
    app = create_app({"kb": served}, folder=folder, open_base=KnowledgeBase.open)
    with (
        listening(app) as address,
        browser.new_context(base_url=address, bypass_csp=True, **options) as context,
    ):
        page = context.new_page()
        for key in ({"name": "Office", "days": 90}, {"name": "Lab", "bases": ["kb"]}):
            assert page.request.post("/v1/keys", data=key).ok
        for name in ("Mango", "Papaya"):
            related = {"name": name, "relations": [{"relation": "grows in", "target": "Peru"}]}
            assert page.request.post("/v1/units", data=related).ok
        for name, path in {
            "start": "/",
            "answer": "/?question=Which country does the Mango come from?",
            "stored": f"/answers/{id}",
            "answers": "/answers",
            "units": "/units",
            "similar": f"/units?like={shop.show('Mango').images[0].split('/')[-1][:64]}",
            "unit": "/units/Mango",
            "graph": "/graph?name=Mango&to=Papaya",
            "changed": "/units/tool-01?changed=1&other=Mango",
            "narrowed": "/units?kind=tool&where=colour%3Dred&offset=0",
            "problem": "/units/nothing",
            "bases": "/bases",
        }.items():
            page.goto(path)
            page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
            page.evaluate(rules)
            broken = page.evaluate("axe.run()")["violations"]
            assert [(rule["id"], rule["nodes"][0]["html"]) for rule in broken] == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.screenshot(path=pictures / f"{name}-{width}-{scheme}.png", full_page=True)


def test_a_question_is_cancelled(page):
    page.goto("/")
    page.route("**/", lambda route: None if route.request.method == "POST" else route.continue_())
    page.get_by_label("Question").fill("What is a Mango?")
    cancel = page.get_by_role("button", name="Cancel")
    assert cancel.is_hidden()
    page.get_by_role("button", name="Ask", exact=True).click()
    cancel.click()
    page.get_by_text("Cancelled.").wait_for()
    assert cancel.is_hidden()
    page.unroute_all(behavior="ignoreErrors")
    ask(page, "Which country does the Mango come from?")
    assert page.get_by_role("heading", name="Peru").is_visible()

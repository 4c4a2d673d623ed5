"""Each tab with real input: what a person would see and do, by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
LONG = "llama-8b-with-131072-tokens.yaml"
Open = Callable[..., Any]
Draw = Callable[..., None]

TABS = {"#plan": ".tiles dd", "#check": "#check .counts .badge", "#effect": "#effect .summary p"}


def verdict(page: Any, text: str, number: int = 0) -> None:
    page.locator(".configuration .verdict .badge").nth(number).get_by_text(text, exact=True).wait_for()


# ── Plan ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_which_gpu_for_this_model(open_page: Open) -> None:
    page = open_page()
    page.get_by_role("combobox", name="Model", exact=True).fill("llama 3.3 70b instr")
    page.get_by_role("option", name="meta-llama/Llama-3.3-70B-Instruct", exact=True).wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    verdict(page, "does not fit")

    page.get_by_role("button", name="4 × NVIDIA-H100-80GB-HBM3: fits").click()

    verdict(page, "fits")
    assert page.get_by_label("GPUs", exact=True).input_value() == "4"
    assert "--tensor-parallel-size 4" in page.locator(".command pre").inner_text()
    assert "m" in page.url.partition("#plan:")[2]
    page.get_by_text("Manifest: Deployment").click()
    assert "kind: Deployment" in page.locator(".copies details pre").inner_text()


def test_what_holds_50_users(open_page: Open, screenshot: Draw) -> None:
    page = open_page("#plan:model=Qwen/Qwen3-14B&gpu=l40s&max_model_len=16384&gpus=1")
    verdict(page, "fits")
    page.get_by_label("Users", exact=True).fill("50")
    held = page.locator(".verdict .held")
    held.get_by_text("of 50 users").wait_for()
    screenshot(page, "users")

    page.get_by_role("button", name="Use 2 × A100 80GB with Qwen/Qwen3-14B-FP8").click()

    held.get_by_text("holds 50 users").wait_for()
    assert page.get_by_role("combobox", name="Model", exact=True).input_value() == "Qwen/Qwen3-14B-FP8"
    assert page.get_by_label("GPUs", exact=True).input_value() == "2"
    again = open_page(f"#{page.url.partition('#')[2]}")
    again.locator(".verdict .held").get_by_text("holds 50 users").wait_for()


def test_the_answer_stays_while_a_model_is_typed(open_page: Open) -> None:
    page = open_page()
    verdict(page, "fits")
    page.evaluate("""window.shown = [];
      new MutationObserver(() => window.shown.push(document.querySelector(".verdict").textContent))
        .observe(document.querySelector(".verdict"), {subtree: true, childList: true, characterData: true})""")
    model = page.get_by_role("combobox", name="Model", exact=True)

    model.fill("")
    model.press_sequentially("llama 3.3 70b", delay=20)
    options = page.get_by_role("option").all_inner_texts()
    page.wait_for_function("!document.querySelector('[role=listbox]').hidden")

    assert page.evaluate("window.shown") == []
    assert page.get_by_text("the answer is that of the last one").is_visible()
    assert options[0] == "meta-llama/Llama-3.3-70B-Instruct"
    assert options.index("unsloth/Llama-3.3-70B-Instruct") > 0
    model.press("Enter")
    verdict(page, "does not fit")


def test_another_model_is_planned_when_its_field_is_left(open_page: Open) -> None:
    page = open_page()
    verdict(page, "fits")
    model = page.get_by_role("combobox", name="Model", exact=True)

    model.fill("acme/ours")
    model.press("Tab")

    page.get_by_text("unknown model 'acme/ours'").first.wait_for()


def test_the_verdict_is_in_view_while_a_slider_moves(open_page: Open) -> None:
    page = open_page(width=400, height=860)
    verdict(page, "fits")

    for name in ("Context", "GPU memory share", "Sequences at once", "Tokens per step"):
        slider = page.get_by_role("slider", name=name)
        slider.focus()
        page.keyboard.press("ArrowLeft")
        places = [one.bounding_box() for one in (page.locator(".verdict"), slider)]
        (bar, track) = places
        assert bar["y"] >= 0
        assert bar["y"] + bar["height"] <= 860
        assert track["y"] + track["height"] <= bar["y"]


def test_each_gpu_is_on_a_side_without_a_named_one(open_page: Open) -> None:
    page = open_page()
    verdict(page, "fits")

    page.get_by_label("GPU", exact=True).fill("")

    page.locator(".partition .fits").wait_for()
    assert "L40S (48 GB)" in page.locator(".partition dd").first.inner_text()
    assert page.locator(".partition .does-not-fit").count() == 1


def test_how_long_a_context(open_page: Open, screenshot: Draw) -> None:
    page = open_page("#plan:model=unsloth/Llama-3.1-8B-Instruct&gpu=l4")
    verdict(page, "does not fit")
    field = page.locator("[data-slider=max_model_len]")
    longest = field.locator(".hint").inner_text().removeprefix("fits up to ").replace(",", "")
    screenshot(page, "plan")

    page.get_by_label("Context --max-model-len").fill(longest)

    verdict(page, "fits")
    page.get_by_label("Context --max-model-len").fill(str(int(longest) + 64))
    verdict(page, "unsure")
    field.get_by_role("button").click()
    verdict(page, "does not fit")


def test_a_slider_by_keyboard(open_page: Open) -> None:
    page = open_page()
    verdict(page, "fits")
    slider = page.get_by_role("slider", name="GPU memory share")
    slider.focus()

    for _ in range(30):
        page.keyboard.press("ArrowLeft")

    verdict(page, "does not fit")
    assert "fits from" in slider.get_attribute("aria-valuetext")
    assert float(page.get_by_label("GPU memory share --gpu-memory-utilization").input_value()) < 0.7


def test_three_configurations_and_their_link(open_page: Open, url: str, screenshot: Draw) -> None:
    page = open_page()
    for number, gpu in enumerate(("h100", "h200"), 1):
        page.get_by_role("button", name="Compare with another").click()
        page.get_by_label("GPU", exact=True).nth(number).fill(gpu)
        verdict(page, "fits", number)
    assert page.get_by_role("button", name="Compare with another").is_disabled()
    page.get_by_text("They differ in: GPU,").wait_for()
    for number in range(3):
        column = page.locator(".configuration").nth(number)
        assert column.locator(".differs > label").first.inner_text() == "GPU"
        assert column.locator(".tiles .differs dt").all_inner_texts() == ["KV cache", "Maximum concurrency"]
        assert "weights" not in column.locator(".waterfall .differs .name").all_inner_texts()
    screenshot(page, "compare")
    page.get_by_role("button", name="Copy link").click()

    link = page.evaluate("navigator.clipboard.readText()")
    again = open_page(link.removeprefix(url))

    verdict(again, "fits", 2)
    assert [one.input_value() for one in again.get_by_label("GPU", exact=True).all()] == ["l40s", "h100", "h200"]
    again.get_by_role("button", name="Remove Configuration A").click()
    assert again.locator(".configuration").count() == 2


def test_an_error_is_at_its_control(open_page: Open) -> None:
    page = open_page()
    verdict(page, "fits")

    page.get_by_label("GPU", exact=True).fill("l40x")

    verdict(page, "no answer")
    assert page.get_by_label("GPU", exact=True).get_attribute("aria-invalid") == "true"
    assert "l40x" in page.locator("[id^=gpu-][id$=-hint]").inner_text()


def test_a_config_is_pasted_and_not_in_the_link(open_page: Open) -> None:
    page = open_page("#plan:model=acme/ours&gpu=l40s")
    verdict(page, "unsure")
    page.get_by_text("Paste a config.json").click()

    page.get_by_label("config.json of a model that the catalog lacks").fill(
        '{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,'
        '"num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,'
        '"max_position_embeddings": 8192, "torch_dtype": "bfloat16"}'
    )

    verdict(page, "fits")
    assert "architectures" not in page.url


# ── Check ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_why_is_this_manifest_denied(open_page: Open, screenshot: Draw) -> None:
    page = open_page("#check")
    page.locator("#check select").select_option(f"examples/{LONG}")

    page.locator("#check .finding").get_by_text("kv-cache-too-small").wait_for()

    assert page.locator("#check .counts").inner_text().startswith("1 denied")
    assert page.locator("#check .marks .denied").count() == 1
    screenshot(page, "check")
    page.locator("#check .finding .line").first.click()
    selected = page.evaluate("(() => { const e = document.querySelector('#check textarea'); "
                             "return e.value.slice(e.selectionStart, e.selectionEnd) })()")  # fmt: skip
    assert "args" in selected or "vllm" in selected


def test_each_file_has_its_verdict(open_page: Open) -> None:
    page = open_page("#check")
    page.locator("#check .tally").get_by_text("7 vLLM containers; findings: 7 denied").wait_for()

    labels = page.locator("#check optgroup").evaluate_all("all => all.map((group) => group.label)")

    assert labels == ["denied (6)", "no findings (1)", "no vLLM container (1)"]
    assert page.locator("#check option:checked").inner_text().strip() == "good.yaml"
    assert page.locator(f"#check option[value='examples/{LONG}']").inner_text().endswith(" · 1 denied, 1 advice")


def test_a_text_pasted_over_a_file_is_none_of_the_files(open_page: Open) -> None:
    page = open_page("#check")
    page.get_by_text("no findings", exact=True).first.wait_for()
    page.get_by_label("Manifest", exact=True).focus()
    page.evaluate("navigator.clipboard.writeText('kind: ConfigMap')")

    page.keyboard.press("Control+a")
    page.keyboard.press("Control+v")

    page.locator("#check .counts").get_by_text("nothing to check").wait_for()
    assert page.locator("#check select").evaluate("select => select.selectedOptions[0].text") == "pasted text"


def test_a_fix_that_is_accepted_changes_the_text(open_page: Open) -> None:
    page = open_page("#check")
    page.locator("#check select").select_option("examples/llama-70b-without-shm.yaml")
    page.get_by_role("heading", name="podfit fix").wait_for()
    before = page.get_by_label("Manifest", exact=True).input_value()

    page.get_by_role("button", name="Accept").click()

    page.get_by_role("heading", name="podfit fix").wait_for(state="detached")
    assert "medium: Memory" in page.get_by_label("Manifest", exact=True).input_value()
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("heading", name="podfit fix").wait_for()
    assert page.get_by_label("Manifest", exact=True).input_value() == before


def test_a_hostile_manifest_is_text(open_page: Open) -> None:
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    page = open_page("#check")
    page.get_by_text("no findings", exact=True).first.wait_for()

    page.get_by_label("Manifest", exact=True).fill(
        f"""apiVersion: v1
kind: Pod
metadata: {{name: "{hostile}", namespace: "{hostile}"}}
spec:
  containers:
    - name: "{hostile}"
      image: vllm/vllm-openai:v0.27.1
      args: [--model, "{hostile}", --max-num-seqs, "{hostile}", "--{hostile}"]
"""
    )

    page.locator("#check .finding").get_by_text("onerror=alert(1)").first.wait_for()
    assert page.locator("#check img, #check script").count() == 0


def test_what_is_no_yaml_is_told_at_its_line(open_page: Open) -> None:
    page = open_page("#check")
    page.get_by_text("no findings", exact=True).first.wait_for()

    page.get_by_label("Manifest", exact=True).fill("apiVersion: v1\nkind: [")

    page.locator("#check .problem").get_by_text("line").wait_for()


# ── Policy effect ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_would_strict_change(open_page: Open, screenshot: Draw) -> None:
    page = open_page("#effect")
    page.get_by_text("choose a policy to see its effect").wait_for()

    page.get_by_role("checkbox", name="strict").check()

    page.get_by_role("heading", name="newly denied").wait_for()
    assert page.locator("#effect table").first.inner_text().count("readiness-probe-missing")
    screenshot(page, "effect")


def test_the_examples_without_files(open_page: Open, url_without_files: str) -> None:
    page = open_page("#effect", start=url_without_files)
    page.get_by_text("7 objects: 5 would get another decision").wait_for()
    page.get_by_text("On podfit's examples").wait_for()

    page.get_by_role("tab", name="Check").click()

    page.get_by_text("no findings", exact=True).first.wait_for()
    page.locator("#check .tally").get_by_text("7 files, 7 vLLM containers").wait_for()


def test_the_table_of_changes_is_as_wide_as_a_phone(open_page: Open) -> None:
    page = open_page("#effect", width=400, height=860)
    page.get_by_role("checkbox", name="strict").check()
    page.locator("#effect table").first.wait_for()

    widths = page.locator("#effect td:last-child").evaluate_all("all => all.map((cell) => cell.offsetWidth)")

    assert min(widths) > 340
    assert page.locator("#effect table").first.evaluate("table => table.scrollWidth <= table.clientWidth")


def test_a_broken_policy_is_an_error_at_its_field(open_page: Open) -> None:
    page = open_page("#effect")
    page.get_by_text("choose a policy to see its effect").wait_for()

    page.get_by_label("Your policy").fill("kind: Policy\nspec: {ruls: {}}")

    page.locator("#policy-hint").get_by_text("ruls").wait_for()


# ── All tabs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_tabs_by_keyboard(open_page: Open) -> None:
    page = open_page()
    verdict(page, "fits")
    page.get_by_role("tab", name="Plan").focus()

    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="Check").get_attribute("aria-selected") == "true"
    page.get_by_role("tabpanel", name="Check").wait_for()
    page.keyboard.press("ArrowRight")
    page.get_by_role("tabpanel", name="Policy effect").wait_for()
    page.keyboard.press("ArrowRight")
    page.get_by_role("tabpanel", name="Plan").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("tab", [*TABS, "#plan: users", "#plan: compared", "#plan: an error", "#plan: no GPU"])
def test_accessible_at_both_widths(
    open_page: Open, axe: str, screenshot: Draw, tab: str, width: int, scheme: str
) -> None:
    fragment, _, state = tab.partition(": ")
    page = open_page(fragment, width=width, height=900 if width > 400 else 844, scheme=scheme)
    page.locator(TABS[fragment]).first.wait_for()
    if state == "users":
        page.get_by_label("Users", exact=True).fill("50")
        page.locator(".held").get_by_text("of 50 users").wait_for()
    if state == "compared":
        page.get_by_role("button", name="Compare with another").click()
        page.get_by_label("GPU", exact=True).nth(1).fill("h100")
        page.get_by_text("They differ in: GPU,").wait_for()
    if state in ("an error", "no GPU"):
        page.get_by_label("GPU", exact=True).fill("l40x" if state == "an error" else "")
        verdict(page, "no answer" if state == "an error" else "unsure")
    if tab == "#check":
        page.locator("#check select").select_option(f"examples/{LONG}")
        page.locator("#check .finding").first.wait_for()
    if tab == "#effect":
        page.get_by_role("checkbox", name="strict").check()
        page.locator("#effect table").first.wait_for()
    if tab == "#plan" and (width, scheme) in ((400, "light"), (1400, "dark")):
        screenshot(page, "narrow" if width == 400 else "dark")

    page.evaluate(axe)
    violations = page.evaluate("axe.run(document)")["violations"]

    assert [(rule["id"], [node["html"][:120] for node in rule["nodes"][:3]]) for rule in violations] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_nothing_moves_while_typing(open_page: Open) -> None:
    page = open_page("#plan:model=Qwen/Qwen3-14B&gpu=l40s&max_model_len=8192")
    verdict(page, "fits")
    page.evaluate("""window.shifts = 0;
      new PerformanceObserver((list) => list.getEntries().forEach((one) => window.shifts += one.value))
        .observe({type: "layout-shift"})""")

    for value in ("81", "819", "8190", "16384", "32768"):
        page.get_by_label("Context --max-model-len").fill(value)
        page.locator(".tiles").get_by_text(f"requests of {int(value):,} tokens").wait_for()

    assert page.evaluate("window.shifts") < 0.1  # what browsers call good

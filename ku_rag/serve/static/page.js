// Reads the event streams of queries and ingests, and sends changes of units.

const find = (selector, root = document) => root.querySelector(selector);
const ask = find("#ask"), picture = find("#picture"), answer = find("#answer");
const similar = find("#similar"), upload = find("#upload"), job = find("#job"), drawing = find(".drawing");

/** Send a request; throw an error with the detail of the problem if it fails. */
async function send(address, options) {
  const response = await fetch(address, options);
  if (response.ok) return response;
  if (response.status === 401) location.reload(); // asks for the key
  throw new Error((await response.json()).detail);
}

/** Yield the kind and the data of each server-sent event of a response. */
async function* readEvents(response) {
  let rest = "";
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const events = (rest + text).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const [, kind, data] = event.match(/^event: (.*)\ndata: (.*)/) ?? [];
      if (kind) yield [kind, JSON.parse(data)];
    }
  }
}

/** Call a function instead of submitting a form, and show in its status what it returns. */
function onSubmit(form, action) {
  form?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = find("button", form), status = find("[role=status]", form);
    button.disabled = true;
    status.textContent = "Working …";
    status.textContent = await action(status, event.submitter).catch((error) => error.message);
    button.disabled = false;
  });
}

function showPicture() {
  const [file] = ask.elements.image.files;
  picture.hidden = !file;
  showRegion(0, 0, 0, 0);
  if (file) find("img", picture).src = URL.createObjectURL(file);
}

function showRegion(left, top, right, bottom) {
  const { naturalWidth, naturalHeight } = find("img", picture), frame = find("rect", picture);
  const values = { x: left, y: top, width: right - left, height: bottom - top };
  find("svg", picture).setAttribute("viewBox", `0 0 ${naturalWidth} ${naturalHeight}`);
  for (const name in values) frame.setAttribute(name, values[name]);
}

function setPicture(event, { files }) {
  if (!files.length) return; // a text
  event.preventDefault();
  const { image } = (ask ?? similar).elements;
  image.files = files;
  image.dispatchEvent(new Event("change"));
}

ask?.elements.image.addEventListener("change", showPicture);
similar?.elements.image.addEventListener("change", () => similar.submit());
if (ask ?? similar) {
  addEventListener("paste", (event) => setPicture(event, event.clipboardData));
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => setPicture(event, event.dataTransfer));
}

onSubmit(ask, async (status, button) => {
  const asking = new AbortController(), { signal } = asking, body = new FormData(ask, button);
  find("#cancel").onclick = () => asking.abort(new Error("Cancelled.")); // the server ends after its step
  find("#start")?.remove(); // the answer takes its place
  status.classList.remove("spoken");
  const headers = { Accept: "text/event-stream" };
  const response = await send("", { method: "POST", headers, body, signal });
  for await (const [kind, { html, detail }] of readEvents(response)) {
    if (kind === "error") throw new Error(detail);
    answer.innerHTML = html; // the server has escaped texts in it
    status.textContent = `Working: ${kind} …`;
    const region = find("[data-box]", answer);
    if (region) showRegion(...JSON.parse(region.dataset.box));
  }
  const link = find("#link", answer);
  if (link) history.replaceState(null, "", link.href); // a reload shows the answer again
  status.classList.add("spoken"); // the answer is in sight
  return find("h2", answer).textContent;
});

for (const form of document.querySelectorAll("form.unit")) {
  onSubmit(form, async () => {
    if (form.dataset.confirm && !confirm(form.dataset.confirm)) return;
    const body = new FormData(form), headers = { Accept: "application/json" };
    location.assign((await send(form.action, { method: "POST", headers, body })).url);
  });
}

const cards = [...document.querySelectorAll(".gallery li")];

find("[name=least]")?.addEventListener("input", ({ target }) => {
  target.nextElementSibling.textContent = target.value;
  for (const card of cards) card.hidden = Number(card.dataset.score ?? 1) < target.value;
});

// Keys move the focus from unit to unit, except while a text is entered.
addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, j: 1, ArrowLeft: -1, k: -1 }[event.key];
  if (!step || event.target.matches("input, textarea, select") || event.altKey || event.ctrlKey) return;
  const links = cards.filter((card) => !card.hidden).map((card) => find("a", card));
  const next = links.indexOf(document.activeElement) + step;
  links[Math.max(next, 0)]?.focus();
});

if (drawing) {
  const middle = find(".marked", drawing) ?? find("svg", drawing);
  const frame = drawing.getBoundingClientRect(), { left, top, width, height } = middle.getBoundingClientRect();
  drawing.scrollTo(left + (width - frame.width) / 2 - frame.left, top + (height - frame.height) / 2 - frame.top);
}

async function showJob(address) {
  const busy = find("span", job), again = find("p > button", job);
  job.hidden = busy.hidden = false;
  again.hidden = true;
  find("button", job).onclick = () => send(address, { method: "DELETE" });
  again.onclick = () => send(`${address}/retry`, { method: "POST" }).then(() => showJob(address), alert);
  const response = await send(`${address}/events`);
  for await (const [, { state, records, report, error, can_retry: canRetry }] of readEvents(response)) {
    again.hidden = !canRetry;
    const { quarantined = [], ...counts } = report ?? { records };
    const counted = Object.entries(counts).map((entry) => entry.join(": ").replace("_", " "));
    find("[role=status]", job).textContent = `${state}; ${error?.detail ?? counted.join(", ")}`;
    const leftOut = quarantined.map(({ item, reason }) => `Left out: ${item}: ${reason}`);
    find(".text", job).textContent = leftOut.join("\n");
  }
  busy.hidden = true;
}

onSubmit(upload, async () => {
  const body = new FormData();
  for (const file of [...upload.elements].flatMap(({ files }) => [...(files ?? [])])) {
    body.append("files", file);
    body.append("names", file.webkitRelativePath || file.name);
  }
  const { id } = await (await send(upload.action, { method: "POST", body })).json();
  await showJob(upload.dataset.job + id);
});

// Opens the page of `postrider notify demo` in Chromium and does what a person would; see ../../docs/testing.md.
// Arguments: the url, the browser's program, and a file for a picture, if one is wanted.

import assert from "node:assert/strict";

import { chromium } from "playwright-core";

const [url, program, picture] = process.argv.slice(2);
const quiet = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: program, headless: true, args: quiet });
const page = await browser.newPage({ viewport: { width: 1100, height: 760 } });
page.setDefaultTimeout(60_000);

// What a stranger wrote must never run, and the page must not trip over itself.
const troubles = [];
page.on("dialog", async (dialog) => { troubles.push(`a dialog: ${dialog.message()}`); await dialog.dismiss(); });
page.on("pageerror", (error) => troubles.push(`an error: ${error.message}`));
page.on("console", (message) => { if (message.type() === "error") troubles.push(`said: ${message.text()}`); });
const elsewhere = [];
page.on("request", (request) => { if (new URL(request.url()).origin !== new URL(url).origin) elsewhere.push(request.url()); });

await page.goto(url);
await page.locator('#connection[data-state="live"]').waitFor();
const state = await page.evaluate(async () => (await fetch("/demo/state")).json());
assert.ok(state.users.length >= 2, "there are users to choose from");
assert.ok(state.samples.length >= 2, "there is something that can happen");

const unread = () => page.locator("#unread").textContent().then((text) => Number.parseInt(text, 10) || 0);
const newest = () => page.locator(".entry").evaluateAll((rows) => Math.max(0, ...rows.map((row) => Number(row.dataset.id))));
const appears = (before) => page.waitForFunction(
  (id) => [...document.querySelectorAll(".entry")].some((row) => Number(row.dataset.id) > id), before);

async function send(sample) {
  await page.selectOption("#sample", String(sample));
  await page.locator("#send button").click();
  await page.locator("#sent", { hasText: "Sent" }).waitFor();
}

// An event arrives while the page is open: the entry shows by itself, and the counter counts it.
await page.selectOption("#user", state.users[0].id);
await page.locator('#connection[data-state="live"]').waitFor();
const before = { id: await newest(), unread: await unread() };
await send(0);
await appears(before.id);
await page.waitForFunction((count) => (Number.parseInt(document.getElementById("unread").textContent, 10) || 0) > count,
  before.unread);

// Every kind of event becomes words, and markup in them is text.
for (let sample = 0; sample < state.samples.length; sample += 1) await send(sample);
await page.waitForFunction(() => [...document.querySelectorAll(".entry .title, .entry .body")]
  .some((words) => /<[a-z]/i.test(words.textContent)));
for (const selector of [".entry .title", ".entry .body"]) {
  for (const words of await page.locator(selector).all()) {
    assert.equal(await words.evaluate((element) => element.children.length), 0, "words are text, never elements");
  }
}
if (picture) await page.screenshot({ path: picture, animations: "disabled" });

// One is marked as read, then all.
const marked = await page.locator(".entry.unread").first().getAttribute("data-id");
await page.locator(`.entry[data-id="${marked}"] .read`).click();
await page.locator(`.entry[data-id="${marked}"]:not(.unread)`).waitFor();
assert.equal(await page.locator(`.entry[data-id="${marked}"] .state`).textContent(), "Read");
const rest = await unread();
assert.ok(rest > 0, "the others are still unread");
await page.locator("#read-all").click();
await page.waitForFunction((count) => (Number.parseInt(document.getElementById("unread").textContent, 10) || 0) < count, rest);

// It is read in another window, too.
const other = await browser.newPage();
await other.goto(`${url}#${encodeURIComponent(state.users[0].id)}`);
await other.locator(`.entry[data-id="${marked}"]:not(.unread)`).waitFor();
await other.close();

// A category is muted: what is of it does not arrive any more, and everything else does.
const category = await page.locator(`.entry[data-id="${marked}"] .category`).textContent();
const box = page.locator(`input[data-key="category:${category}"]`);
await box.uncheck();
await page.waitForFunction(async ([user, name]) => {
  const headers = user.signature ? { "X-Postrider-Signature": user.signature } : {};
  const answer = await fetch(`/recipients/${encodeURIComponent(user.id)}/preferences`, { headers });
  return (await answer.json()).preferences.some((one) => one.category === name && one.on === false);
}, [state.users[0], category]);
const last = await page.evaluate(async (user) => {
  const headers = user.signature ? { "X-Postrider-Signature": user.signature } : {};
  const answer = await fetch(`/feed/${encodeURIComponent(user.id)}?limit=1`, { headers });
  return (await answer.json()).entries[0].id;
}, state.users[0]);
for (let sample = 0; sample < state.samples.length; sample += 1) await send(sample);
await appears(last);
const came = await page.locator(".entry").evaluateAll((rows, id) => rows.filter((row) => Number(row.dataset.id) > id)
  .map((row) => row.querySelector(".category").textContent), last);
assert.ok(!came.includes(category), `${category} is muted, and ${came} came`);
await box.check();

// The feed of another person is another feed.
await page.selectOption("#user", state.users[1].id);
await page.locator('#connection[data-state="live"]').waitFor();
assert.equal(await page.locator(`.entry[data-id="${marked}"]`).count(), 0, "one's entry is not in the other's feed");

assert.deepEqual(troubles, []);
assert.deepEqual(elsewhere, [], "nothing is loaded from elsewhere");
await browser.close();

// The feed of one person, live. Text from notifications is only ever set as text: what somebody wrote is never markup.
"use strict";

const $ = (id) => document.getElementById(id);
const entries = new Map();
const PAGE = 20;
let state = { users: [], categories: [], channels: [], samples: [] };
let user = null;
let unread = 0;
let stream = null;
// Answers that belong to a person who is not chosen any more are left out.
let turn = 0;

const names = { in_app: "In app", email: "Email", push: "Push" };
const feedPath = (rest = "") => `/feed/${encodeURIComponent(user.id)}${rest}`;
const preferencesPath = () => `/recipients/${encodeURIComponent(user.id)}/preferences`;

async function ask(path, method = "GET", body = undefined) {
  const headers = {};
  if (user && user.signature) headers["X-Postrider-Signature"] = user.signature;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const document = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw new Error(document.detail || answer.statusText);
  return document;
}

function trouble(error) {
  $("problem").textContent = error ? error.message : "";
  $("problem").hidden = !error;
}

// Runs what a person asked for, and shows what went wrong where they look.
async function attempt(work) {
  try {
    await work();
    trouble(null);
  } catch (error) {
    trouble(error);
  }
}

function showConnection(word, text) {
  $("connection").dataset.state = word;
  $("connection").querySelector("span").textContent = text;
}

function showUnread(count) {
  unread = count;
  $("badge").textContent = count > 99 ? "99+" : String(count);
  $("badge").hidden = count === 0;
  $("unread").textContent = count === 0 ? "All read" : `${count} unread`;
  $("read-all").disabled = count === 0;
  document.title = count === 0 ? "Notifications" : `(${count}) Notifications`;
}

function ago(time) {
  const seconds = Math.round((Date.now() - time.getTime()) / 1000);
  if (seconds < 10) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return time.toLocaleString();
}

function showTime(element) {
  const text = ago(new Date(element.dateTime));
  if (element.textContent !== text) element.textContent = text;
}

function fill(row, entry) {
  row.dataset.id = entry.id;
  row.classList.toggle("unread", !entry.read_at);
  row.querySelector(".title").textContent = entry.title;
  row.querySelector(".body").textContent = entry.body;
  row.querySelector(".category").textContent = entry.category;
  row.querySelector(".state").textContent = entry.read_at ? "Read" : "Unread";
  const time = row.querySelector("time");
  time.dateTime = entry.created_at;
  time.title = new Date(entry.created_at).toLocaleString();
  showTime(time);
  const read = row.querySelector(".read");
  read.hidden = Boolean(entry.read_at);
  read.setAttribute("aria-label", `Mark as read: ${entry.title}`);
  row.querySelector(".archive").setAttribute("aria-label", `Archive: ${entry.title}`);
}

// An entry may come twice, or late: its id says where it belongs.
function place(entry, isNew) {
  const known = entries.get(entry.id);
  if (known) {
    known.entry = entry;
    fill(known.row, entry);
    return;
  }
  const row = $("entry").content.firstElementChild.cloneNode(true);
  fill(row, entry);
  row.classList.toggle("new", isNew);
  const older = [...$("entries").children].find((other) => Number(other.dataset.id) < entry.id);
  $("entries").insertBefore(row, older || null);
  entries.set(entry.id, { entry, row });
  $("empty").hidden = true;
}

function drop(id) {
  const known = entries.get(id);
  if (!known) return;
  known.row.remove();
  entries.delete(id);
  $("empty").hidden = entries.size > 0;
}

async function load(before) {
  const mine = turn;
  const query = before ? `?limit=${PAGE}&before=${before}` : `?limit=${PAGE}`;
  const page = await ask(feedPath(query));
  if (mine !== turn) return;
  if (!before) {
    // What is in this range and not in the answer was archived elsewhere.
    const ids = new Set(page.entries.map((entry) => entry.id));
    const lowest = page.next === null ? 0 : Math.min(...ids);
    for (const id of [...entries.keys()]) if (id >= lowest && !ids.has(id)) drop(id);
  }
  for (const entry of page.entries) place(entry, false);
  const oldest = Math.min(...entries.keys());
  if (before || entries.size <= PAGE) $("more").hidden = page.next === null;
  $("more").dataset.before = oldest;
  $("empty").hidden = entries.size > 0;
}

// The stream tells of what is new; what was read in another window only shows in the count.
function listen() {
  const mine = turn;
  if (stream) stream.close();
  const query = user.signature ? `?signature=${user.signature}` : "";
  stream = new EventSource(feedPath("/live") + query);
  showConnection("connecting", "Connecting");
  let wasLost = false;
  stream.onopen = () => {
    showConnection("live", "Live");
    if (wasLost) attempt(() => load());
    wasLost = false;
  };
  stream.onerror = () => {
    wasLost = true;
    const ended = stream.readyState === EventSource.CLOSED;
    showConnection("lost", ended ? "Disconnected" : "Connection lost, trying again");
    // A browser gives up where the answer was a refusal, as of a server that is starting.
    if (ended) setTimeout(() => { if (mine === turn) listen(); }, 3000);
  };
  stream.addEventListener("entry", (event) => place(JSON.parse(event.data), true));
  stream.addEventListener("reload", () => attempt(() => load()));
  stream.addEventListener("unread", (event) => {
    const count = JSON.parse(event.data).unread;
    const fewer = count < unread;
    showUnread(count);
    const shown = [...entries.values()].filter(({ entry }) => !entry.read_at).length;
    if (fewer && shown > count) attempt(() => load());
  });
}

async function mark(mark, which) {
  const answer = await ask(feedPath("/marks"), "POST", { mark, ...which });
  showUnread(answer.unread);
}

async function markOne(id, word) {
  await mark(word, { id });
  const known = entries.get(id);
  if (word === "archived") drop(id);
  else if (known) place({ ...known.entry, read_at: new Date().toISOString() }, false);
}

async function markAll() {
  const newest = Math.max(...entries.keys());
  await mark("read", { up_to: newest });
  const now = new Date().toISOString();
  for (const { entry } of [...entries.values()]) {
    if (!entry.read_at && entry.id <= newest) place({ ...entry, read_at: now }, false);
  }
}

function toggle(label, on, preference) {
  const row = document.createElement("label");
  row.className = "switch";
  const text = document.createElement("span");
  text.textContent = label;
  const box = document.createElement("input");
  box.type = "checkbox";
  box.setAttribute("role", "switch");
  box.checked = on;
  box.addEventListener("change", () => attempt(async () => {
    try {
      const said = [{ ...preference, on: box.checked }];
      showPreferences((await ask(preferencesPath(), "PUT", { preferences: said })).preferences);
    } catch (error) {
      box.checked = !box.checked;
      throw error;
    }
  }));
  row.append(text, box);
  return row;
}

// Only what was said of a channel, or of a category, as a whole is shown here; finer wishes are left alone.
function showPreferences(preferences) {
  const on = (channel, category) => {
    const said = preferences.find((one) => (one.channel || null) === channel && (one.category || null) === category);
    return said ? said.on : true;
  };
  const focused = document.activeElement && document.activeElement.dataset.key;
  const rows = (list, label, key) => list.map((word) => {
    const preference = { channel: null, category: null, [key]: word };
    const row = toggle(label(word), on(preference.channel, preference.category), preference);
    row.querySelector("input").dataset.key = `${key}:${word}`;
    return row;
  });
  $("channels").replaceChildren(...rows(state.channels, (word) => names[word] || word, "channel"));
  $("categories").replaceChildren(...rows(state.categories, (word) => word, "category"));
  const again = [...document.querySelectorAll(".switch input")].find((box) => box.dataset.key === focused);
  if (focused && again) again.focus();
}

async function choose(id) {
  turn += 1;
  const mine = turn;
  user = state.users.find((one) => one.id === id) || state.users[0];
  if (!user) throw new Error("this demo has no users");
  $("user").value = user.id;
  history.replaceState(null, "", `#${encodeURIComponent(user.id)}`);
  entries.clear();
  $("entries").replaceChildren();
  showUnread(0);
  listen();
  await load();
  const answer = await ask(preferencesPath());
  if (mine === turn) showPreferences(answer.preferences);
}

async function send() {
  const body = { user: user.id, sample: Number($("sample").value) };
  await ask("/demo/events", "POST", body);
  $("sent").textContent = "Sent. It arrives by itself.";
}

function option(value, text) {
  const element = document.createElement("option");
  element.value = value;
  element.textContent = text;
  return element;
}

async function begin() {
  state = await ask("/demo/state");
  $("user").replaceChildren(...state.users.map((one) => option(one.id, one.name || one.id)));
  $("sample").replaceChildren(...state.samples.map((label, at) => option(at, label)));
  $("user").addEventListener("change", () => attempt(() => choose($("user").value)));
  $("read-all").addEventListener("click", () => attempt(markAll));
  $("more").addEventListener("click", () => attempt(() => load(Number($("more").dataset.before))));
  $("send").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(send);
  });
  $("entries").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    const row = event.target.closest(".entry");
    if (!button || !row) return;
    const word = button.classList.contains("archive") ? "archived" : "read";
    attempt(() => markOne(Number(row.dataset.id), word));
  });
  setInterval(() => document.querySelectorAll(".entry time").forEach(showTime), 5000);
  await choose(decodeURIComponent(location.hash.slice(1)));
}

attempt(begin);

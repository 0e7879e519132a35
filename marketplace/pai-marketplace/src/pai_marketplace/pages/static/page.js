// Search and checks as one types. Without this, the same forms do the same with their buttons.
"use strict";

const PAUSE = 350; // milliseconds without a key before the server is asked

// Replaces the element of this id with that of the page which the form leads to.
async function refresh(form, id, does, running) {
  const target = new URL(form.action);
  const data = new URLSearchParams(new FormData(form));
  const options = { signal: running.signal, headers: { "X-Live": "yes" } };
  if (form.method === "get") {
    for (const [name, value] of [...data]) if (!value) data.delete(name, value);
    target.search = data;
  } else {
    data.set("do", does);
    Object.assign(options, { method: "POST", body: data });
  }
  const answer = await fetch(target, options);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById(id);
  const old = document.getElementById(id);
  if (!answer.ok || !fresh || !old) return;
  if (form.method === "get") history.replaceState(null, "", target);
  old.replaceWith(document.adoptNode(fresh));
  for (const message of page.querySelectorAll(".field > p.message")) { // beside the fields that they are about
    const place = document.getElementById(message.id);
    const field = document.getElementById(message.id.replace(/-wrong$/, ""));
    if (!place || !field) continue;
    place.textContent = message.textContent;
    field.toggleAttribute("aria-invalid", false);
    if (message.textContent) field.setAttribute("aria-invalid", "true");
  }
  enliven(document.getElementById(id));
}

function live(form) {
  let timer, running;
  form.addEventListener("input", (event) => {
    const part = event.target.closest("[data-live]");
    if (!part) return;
    clearTimeout(timer);
    if (running) running.abort();
    timer = setTimeout(() => {
      running = new AbortController();
      refresh(form, part.dataset.live, part.dataset.do || "check", running).catch((error) => {
        if (error.name !== "AbortError") console.warn(error.message);
      });
    }, PAUSE);
  });
}

function copies(button) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const field = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(field.value);
      button.textContent = "Copied";
    } catch { // not over http
      field.focus();
      field.select();
      button.textContent = document.execCommand("copy") ? "Copied" : "Selected: copy it with your keyboard";
    }
  });
}

// A line's number leads to the line where it can be changed.
function leads(link) {
  const text = document.querySelector("textarea[name=text]");
  if (!text) return;
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const lines = text.value.split("\n");
    const start = lines.slice(0, link.dataset.line - 1).join("\n").length + (link.dataset.line > 1 ? 1 : 0);
    text.focus();
    text.setSelectionRange(start, start + (lines[link.dataset.line - 1] || "").length);
    text.scrollTop = (text.scrollHeight / lines.length) * Math.max(0, link.dataset.line - 4);
  });
}

function enliven(part) {
  part.querySelectorAll("form").forEach(live);
  part.querySelectorAll("button[data-copy]").forEach(copies);
  part.querySelectorAll("a[data-line]").forEach(leads);
}

enliven(document);

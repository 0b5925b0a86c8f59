"use strict";
// Shows the page's clusters: the least certain first, or those that hold the records searched for.
const data = JSON.parse(document.getElementById("data").textContent);
const STEP = 20; // cards shown at once
const LONGEST_BAR = 25; // bits
const cards = document.getElementById("cards");
const found = document.getElementById("found");
const more = document.getElementById("more");
const printed = document.getElementById("printed");
const search = document.getElementById("search");
let chosen = data.entities;
let shown = 0;

function element(tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text; // never as HTML: values may be anything
  if (name) made.className = name;
  return made;
}

function recordName(record) {
  const [file, id] = data.records[record];
  return data.files.length > 1 ? `${data.files[file]}:${id}` : id;
}

function percent(probability) {
  if (probability >= 0.9995) return "certain";
  return probability < 0.01 ? "below 1%" : `${(100 * probability).toFixed(probability > 0.99 ? 1 : 0)}%`;
}

// The value of each record of a set in a field, and whether it differs from the first one shown.
function valuesOf(set, field) {
  const [, records, , , , agreement] = set;
  const codes = records.map((record, i) =>
    data.masked ? agreement[field].charCodeAt(i) - 97 : data.records[record][2 + field]);
  const first = codes.find((code) => code >= 0);
  return codes.map((code) => ({
    text: code < 0 ? "missing" : data.masked ? (code === first ? "same" : `other ${code}`) : data.fields[field].values[code],
    kind: code < 0 ? "missing" : code !== first ? "differs" : "",
  }));
}

function signed(bits) {
  return bits === 0 ? "0" : `${bits < 0 ? "\u2212" : "+"}${Math.abs(bits).toLocaleString("en")}`;
}

// What a field says; null where it contradicts, and only a direction where values are masked.
function evidenceCell(bits) {
  if (data.masked) return element("td", bits > 0 ? "for" : bits < 0 ? "against" : "nothing");
  if (bits === null) return element("td", "never");
  const cell = element("td", signed(bits), "number bits");
  const bar = element("i", undefined, bits < 0 ? "against" : "for");
  bar.style.width = `${Math.min(Math.abs(bits) / LONGEST_BAR, 1) * 5}rem`;
  cell.append(bar);
  return cell;
}

function setTable(set) {
  const [, records, named, further, evidence] = set;
  const box = element("div", undefined, "scroll");
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", `${records.map(recordName).join(", ")}, side by side`);
  const table = box.appendChild(element("table"));
  const head = table.appendChild(element("thead")).appendChild(element("tr"));
  for (const name of ["field", ...records.map(recordName)]) head.append(column(name));
  if (evidence.length) head.append(column(data.masked ? "evidence" : "evidence, bits"));
  const body = table.appendChild(element("tbody"));
  data.fields.forEach((field, f) => {
    const row = body.appendChild(element("tr"));
    const title = row.appendChild(element("th", field.name));
    title.scope = "row";
    for (const { text, kind } of valuesOf(set, f)) {
      row.append(element("td", kind === "differs" ? `${text} \u2260` : text, kind));
    }
    if (evidence.length) row.append(evidenceCell(evidence[f]));
  });
  if (named.length) {
    const rest = further ? ` and ${further.toLocaleString("en")} more` : "";
    box.append(element("p", `Also in this set: ${named.map(recordName).join(", ")}${rest}`, "sum"));
  }
  if (evidence.length && !data.masked) box.append(element("p", inWords(evidence), "sum"));
  return box;
}

function column(name) {
  const cell = element("th", name);
  cell.scope = "col";
  return cell;
}

function inWords(evidence) {
  if (evidence.includes(null)) return "They contradict each other in a field that is never distorted.";
  const sum = evidence.reduce((a, b) => a + b, 0);
  const zeros = Math.abs(sum) * Math.log10(2);
  const much = zeros < 6 ? Math.round(10 ** zeros).toLocaleString("en") : `10^${Math.round(zeros)}`;
  const side = sum >= 0 ? "likelier" : "less likely";
  const total = Number(sum.toFixed(1));
  return `In all ${signed(total)} bits: what they show is about ${much} times ${side} from one entity than from separate ones.`;
}

function card([name, own, others]) {
  const set = data.sets[own];
  const box = element("article", undefined, "card");
  const size = set[1].length + set[2].length + set[3];
  const title = box.appendChild(element("h3", size > 1 ? `${size} records` : `${recordName(set[1][0])} alone`));
  title.append(element("span", percent(set[0])), element("code", name));
  const single = size === 1;
  if (!(single && data.masked)) box.append(setTable(set));
  others.forEach((other, place) => {
    const [probability, records, named] = data.sets[other];
    const details = box.appendChild(element("details"));
    const names = records.map(recordName).join(" + ") + (named.length ? " + \u2026" : "");
    const what = records.length > 1 ? `together: ${names}` : `alone: ${names}`;
    details.append(element("summary", `${percent(probability)} ${what}`));
    details.fill = () => {
      if (details.children.length === 1) details.append(setTable(data.sets[other]));
    };
    details.addEventListener("toggle", () => {
      details.fill();
      letScroll(details);
    });
    details.open = place === 0 && (single || probability > set[0]); // what a reader would look at next
  });
  return box;
}

function showMore() {
  const next = chosen.slice(shown, shown + STEP);
  cards.append(...next.map(card));
  letScroll(cards);
  shown += next.length;
  more.hidden = shown >= chosen.length;
}

// What is wider than its room is scrolled, also by keys.
function letScroll(part) {
  for (const box of part.querySelectorAll(".scroll")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

function show(entities, words) {
  chosen = entities;
  shown = 0;
  cards.replaceChildren();
  found.textContent = words;
  showMore();
}

function everything() {
  const count = data.entities.length.toLocaleString("en");
  const rest = data.left_out
    ? `; ${data.left_out.toLocaleString("en")} more, the most certain ones, are in the run's tables only` : "";
  return `${count} entities${rest}`;
}

let names; // of the records of each entity, in lower case, made when first needed
function find(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return show(data.entities, everything());
letScroll(document);
  names ??= data.entities.map(([, own]) => [...data.sets[own][1], ...data.sets[own][2]].flatMap((record) => {
    const [file, id] = data.records[record];
    return [id.toLowerCase(), `${data.files[file]}:${id}`.toLowerCase()];
  }));
  const exact = data.entities.filter((_, i) => names[i].includes(wanted));
  const entities = exact.length ? exact : data.entities.filter((_, i) => names[i].some((name) => name.includes(wanted)));
  const what = entities.length === 1 ? "1 entity holds" : `${entities.length.toLocaleString("en")} entities hold`;
  show(entities, entities.length ? `${what} a record ${exact.length ? "named" : "with"} ${text.trim()}` : `No record named ${text.trim()} is on this page`);
}

search.form.addEventListener("submit", (event) => event.preventDefault());
search.addEventListener("input", () => find(search.value));
more.addEventListener("click", showMore);
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not(.wide)")) { // on paper nothing scrolls
    details.fill?.();
    details.open = true;
  }
  printed.textContent = `${shown.toLocaleString("en")} of ${chosen.length.toLocaleString("en")} clusters are printed; press \u201cShow more\u201d before printing for others.`;
});
show(data.entities, everything());
letScroll(document);

"use strict";
// Shows the page's clusters: the least certain first, or those that hold the records searched for.
const data = JSON.parse(document.getElementById("data").textContent);
const STEP = 20; // cards shown at once
const LONGEST_BAR = 25; // bits
const cards = document.getElementById("cards");
const found = document.getElementById("found");
const more = document.getElementById("more");
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
  const [, records, , , agreement] = set;
  const codes = records.map((record, i) =>
    data.masked ? agreement[field].charCodeAt(i) - 97 : data.records[record][2 + field]);
  const first = codes.find((code) => code >= 0);
  return codes.map((code) => ({
    text: code < 0 ? "missing" : data.masked ? (code === first ? "same" : `other ${code}`) : data.fields[field].values[code],
    kind: code < 0 ? "missing" : code !== first ? "differs" : "",
  }));
}

function signed(bits) {
  if (Math.abs(bits) >= 999) return bits > 0 ? "certain" : "impossible";
  return `${bits < 0 ? "\u2212" : "+"}${Math.abs(bits)}`;
}

function bitsCell(bits) {
  const cell = element("td", bits === 0 ? "0" : signed(bits), "number bits");
  const bar = element("i", undefined, bits < 0 ? "against" : "for");
  bar.style.width = `${Math.min(Math.abs(bits) / LONGEST_BAR, 1) * 5}rem`;
  cell.append(bar);
  return cell;
}

function setTable(set) {
  const [, records, further, evidence] = set;
  const box = element("div", undefined, "scroll");
  const table = box.appendChild(element("table"));
  const head = table.appendChild(element("thead")).appendChild(element("tr"));
  for (const name of ["field", ...records.map(recordName)]) head.append(column(name));
  if (evidence.length) head.append(column("evidence, bits"));
  const body = table.appendChild(element("tbody"));
  data.fields.forEach((field, f) => {
    const row = body.appendChild(element("tr"));
    const title = row.appendChild(element("th", field.name));
    title.scope = "row";
    for (const { text, kind } of valuesOf(set, f)) {
      row.append(element("td", kind === "differs" ? `${text} \u2260` : text, kind));
    }
    if (evidence.length) row.append(bitsCell(evidence[f]));
  });
  if (further) box.append(element("p", `and ${further} more records`, "sum"));
  if (evidence.length) box.append(element("p", inWords(evidence), "sum"));
  return box;
}

function column(name) {
  const cell = element("th", name);
  cell.scope = "col";
  return cell;
}

function inWords(evidence) {
  const sum = evidence.reduce((a, b) => a + b, 0);
  if (sum <= -900) return "They contradict each other in a field that is never distorted.";
  const times = 2 ** Math.abs(sum);
  const much = times < 1e6 ? Math.round(times).toLocaleString("en") : `10^${Math.round(Math.log10(times))}`;
  const side = sum >= 0 ? "likelier" : "less likely";
  const total = Number(sum.toFixed(1));
  return `In all ${signed(total)} bits: what they show is about ${much} times ${side} from one entity than from separate ones.`;
}

function card([name, own, others]) {
  const set = data.sets[own];
  const box = element("article", undefined, "card");
  const size = set[1].length + set[2];
  const title = box.appendChild(element("h3", size > 1 ? `${size} records` : "A single record"));
  title.append(element("span", percent(set[0])), element("code", name));
  box.append(setTable(set));
  for (const other of others) {
    const [probability, records] = data.sets[other];
    const details = box.appendChild(element("details"));
    const names = records.map(recordName).join(" + ");
    const what = records.length > 1 ? `together: ${names}` : `alone: ${names}`;
    details.append(element("summary", `${percent(probability)} ${what}`));
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(setTable(data.sets[other]));
    });
  }
  return box;
}

function showMore() {
  const next = chosen.slice(shown, shown + STEP);
  cards.append(...next.map(card));
  shown += next.length;
  more.hidden = shown >= chosen.length;
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
  names ??= data.entities.map(([, own]) => data.sets[own][1].map((record) => {
    const [file, id] = data.records[record];
    return [id.toLowerCase(), `${data.files[file]}:${id}`.toLowerCase()];
  }).flat());
  const exact = data.entities.filter((_, i) => names[i].includes(wanted));
  const entities = exact.length ? exact : data.entities.filter((_, i) => names[i].some((name) => name.includes(wanted)));
  const what = entities.length === 1 ? "1 entity holds" : `${entities.length.toLocaleString("en")} entities hold`;
  show(entities, entities.length ? `${what} a record ${exact.length ? "named" : "with"} ${text.trim()}` : `No record named ${text.trim()} is on this page`);
}

search.form.addEventListener("submit", (event) => event.preventDefault());
search.addEventListener("input", () => find(search.value));
more.addEventListener("click", showMore);
show(data.entities, everything());

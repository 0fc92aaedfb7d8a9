(() => {
  const form = document.getElementById("controls");
  if (!form) return;
  const get = (id) => document.getElementById(id);
  const controls = [...form.querySelectorAll(".control")];
  const positions = 60;
  const mostLevels = 40;
  let [inputs, answer, values, along, output, waiting] = [[], null, [], 0, 0, false];

  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const element = (name, attributes = {}, text = "") => {
    const space = "http://www.w3.org/2000/svg";
    const made = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };
  const html = (name, text, kind = "") => {
    const made = document.createElement(name);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };

  // Values of the inputs: null where one is missing.
  const read = (i) => {
    const { kind } = inputs[i];
    if (get(`missing${i}`)?.checked) return null;
    if (kind === "number") return get(`exact${i}`).valueAsNumber;
    return kind === "category" ? Number(get(`input${i}`).value) : get(`input${i}`).value;
  };
  const named = (i, value) => {
    if (value === null) return "missing";
    if (inputs[i].kind === "number") return precise(value);
    return inputs[i].kind === "category" ? inputs[i].levels[value] ?? "another level" : value.replace("T", " ");
  };
  const beyond = () => inputs
    .filter((one, i) => one.kind !== "category" && values[i] !== null
      && (values[i] < one.low || values[i] > one.high))
    .map((one) => one.name);

  const show = () => {
    const found = window.pursuit.predict(values);
    const place = get("prediction");
    place.replaceChildren();
    if (answer.kind === "numbers") {
      found.mean.forEach((value, o) => {
        const line = html("p", `${answer.names[o]}: `);
        line.append(html("strong", precise(value)));
        place.append(line);
      });
      found.lower?.forEach((lower, o) => {
        const kind = answer.interval.kind === "conformal" ? "guaranteed on average" : "by the model's own distribution";
        const of = found.lower.length > 1 ? ` of ${answer.names[o]}` : "";
        const text = `${percent(answer.interval.level).replace(".0", "")} interval${of}: `
          + `${precise(lower)} to ${precise(found.upper[o])} (${kind})`;
        place.append(html("p", text, "interval"));
      });
    } else {
      const line = html("p", "Prediction: ");
      line.append(html("strong", answer.names[found.label]));
      const list = html("ul", "", "bars");
      const shares = found.probabilities ?? found.mean;
      const names = shares.length === answer.names.length ? answer.names : [`for ${answer.names[1]}`];
      const order = shares.map((_, c) => c).sort((a, b) => shares[b] - shares[a]).slice(0, 12);
      for (const c of order) {
        const item = html("li", "");
        item.append(html("span", names[c], "name"));
        const bar = html("span", "", "bar");
        bar.setAttribute("aria-hidden", "true");
        bar.style.width = found.probabilities ? `${100 * shares[c]}%` : "0";
        item.append(bar, html("span", found.probabilities ? percent(shares[c]) : precise(shares[c]), "number"));
        list.append(item);
      }
      place.append(line, list);
    }
    const outside = beyond();
    if (outside.length) {
      const what = outside.length > 3 ? `${outside.length} inputs` : outside.join(", ");
      place.append(html("p", `Beyond the range of the rows in the page: ${what}.`, "remark"));
    }
  };

  // What the curve shows at some values: the number, and the ends of its interval where known.
  const point = (found) => {
    const y = (found.probabilities ?? found.mean)[output];
    const o = found.lower && (found.lower.length > 1 ? output : 0);
    const banded = found.lower && (found.lower.length > 1 || found.mean.length === 1);
    return { y, lower: banded ? found.lower[o] : y, upper: banded ? found.upper[o] : y };
  };
  const day = 86400000;
  const milliseconds = (text) => Date.parse(text.length > 10 ? `${text}Z` : text);
  const withClock = (one) => one.kind === "date" && one.low.length > 10;
  // Of many days, the curve shows the time of day that is set: it has no room for their cycles.
  const daily = (one) => withClock(one) && milliseconds(one.high) - milliseconds(one.low) > 3 * day;
  const grid = (one) => {
    if (one.kind === "category") {
      const levels = [...one.levels.keys()];
      // The level that is set stays among those that are shown.
      const all = one.other ? [...levels, levels.length] : levels;
      const set = values[along];
      const some = all.slice(0, mostLevels);
      return some.includes(set) || set === null ? some : [...some.slice(0, -1), set];
    }
    if (one.kind === "date") {
      let [first, last] = [milliseconds(one.low), milliseconds(one.high)];
      const text = (time) => new Date(time).toISOString().slice(0, one.low.length);
      if (withClock(one) && !daily(one)) {
        return Array.from({ length: positions + 1 }, (_, i) => text(first + ((last - first) * i) / positions));
      }
      if (daily(one)) first += (((milliseconds(values[along] ?? one.low) - first) % day) + day) % day;
      last = first + Math.floor((last - first) / day) * day;
      const steps = Math.min(positions, Math.max(1, Math.round((last - first) / day)));
      return Array.from({ length: steps + 1 }, (_, i) => {
        const days = Math.round(((last - first) * i) / steps / day);
        return text(first + days * day);
      });
    }
    const low = Math.min(one.low, values[along] ?? one.low);
    const high = Math.max(one.high, values[along] ?? one.high);
    return Array.from({ length: positions + 1 }, (_, i) => low + ((high - low) * i) / positions);
  };
  const number = (one, value) => (one.kind === "date" ? milliseconds(value) / day : value);

  // Round numbers between two others: 1, 2 or 5 times a power of 10 apart.
  const ticks = (low, high) => {
    const rough = (high - low) / 4;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = unit * [1, 2, 5, 10].find((times) => times * unit >= rough);
    const first = Math.ceil(low / step);
    const count = Math.floor(high / step) - first + 1;
    return Array.from({ length: count }, (_, i) => Number(((first + i) * step).toPrecision(12)));
  };

  const draw = () => {
    waiting = false;
    const one = inputs[along];
    const xs = grid(one);
    const at = (value) => point(window.pursuit.predict(Object.assign([...values], { [along]: value })));
    const points = xs.map(at);
    const here = at(values[along]);
    const [left, right, top, bottom] = [58, 468, 12, 236];
    const ends = [...points, here];
    let [low, high] = [Math.min(...ends.map((p) => p.lower)), Math.max(...ends.map((p) => p.upper))];
    if (answer.kind === "probabilities") [low, high] = [0, 1];
    if (!(high > low)) [low, high] = [low - 0.5, high + 0.5];
    const categories = one.kind === "category";
    const place = (value) => {
      const [first, last] = [number(one, xs[0]), number(one, xs.at(-1))];
      if (categories) return left + ((xs.indexOf(value) + 0.5) / xs.length) * (right - left);
      return left + (last > first ? (number(one, value) - first) / (last - first) : 0.5) * (right - left);
    };
    const height = (y) => bottom - ((y - low) / (high - low)) * (bottom - top);
    const parts = [];
    for (const y of ticks(low, high)) {
      const h = height(y);
      parts.push(element("line", { class: "grid", x1: left, x2: right, y1: h, y2: h }));
      parts.push(element("text", { x: left - 6, y: h + 4, "text-anchor": "end" }, precise(y)));
    }
    const pair = (value, y) => `${place(value).toFixed(1)},${height(y).toFixed(1)}`;
    if (categories) {
      points.forEach((p, i) => {
        const x = place(xs[i]);
        parts.push(element("line", { class: "bar", x1: x, x2: x, y1: height(p.lower), y2: height(p.upper) }));
        parts.push(element("circle", { class: "level", cx: x, cy: height(p.y), r: 3.5 }));
        if (xs.length <= 8) {
          const text = named(along, xs[i]);
          const room = Math.floor((right - left) / xs.length / 7);
          const cut = text.length > room ? `${text.slice(0, room - 1)}…` : text;
          parts.push(element("text", { x, y: bottom + 18, "text-anchor": "middle" }, cut));
        }
      });
    } else {
      const band = [
        ...xs.map((value, i) => pair(value, points[i].upper)),
        ...xs.map((value, i) => pair(value, points[i].lower)).reverse(),
      ];
      parts.push(element("polygon", { points: band.join(" ") }));
      parts.push(element("polyline", { points: xs.map((value, i) => pair(value, points[i].y)).join(" ") }));
      const anchors = [[xs[0], "start"], [xs.at(-1), "end"]];
      for (const [value, anchor] of anchors) {
        parts.push(element("text", { x: place(value), y: bottom + 18, "text-anchor": anchor }, named(along, value)));
      }
    }
    if (values[along] !== null && Number.isFinite(here.y)) {
      const x = place(values[along]);
      parts.push(element("line", { class: "now", x1: x, x2: x, y1: top, y2: bottom }));
      parts.push(element("circle", { class: "now", cx: x, cy: height(here.y), r: 5 }));
    }
    const title = { x: 0.5 * (left + right), y: bottom + 36, "text-anchor": "middle", class: "title" };
    parts.push(element("text", title, one.name));
    get("along").replaceChildren(...parts);
    describe(one, xs, points);
  };

  const describe = (one, xs, points) => {
    const best = (better) => points.reduce((at, p, i) => (better(p.y, points[at].y) ? i : at), 0);
    const [least, most] = [best((a, b) => a < b), best((a, b) => a > b)];
    const several = get("output").options.length > 1 || answer.kind !== "numbers";
    const what = several ? get("output").selectedOptions[0].text : "prediction";
    const time = daily(one) ? `, at ${xs[0].slice(11)} of each day` : "";
    const band = answer.interval ? `, with its ${100 * answer.interval.level} % interval` : "";
    get("along-text").textContent =
      `The ${what} along ${one.name}, all other inputs as they are set${time}${band}: lowest `
      + `${precise(points[least].y)} at ${named(along, xs[least])}, highest ${precise(points[most].y)} `
      + `at ${named(along, xs[most])}.`;
  };
  const drawSoon = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(draw);
  };

  const follow = (i) => {
    if (i === along) return;
    along = i;
    for (const control of controls) control.classList.toggle("followed", Number(control.dataset.input) === i);
    drawSoon();
  };
  // A slider and its box show the same number; of what is typed, the slider shows the nearest.
  const match = (i, moved) => {
    const { low, high, digits } = inputs[i];
    const [slider, box] = [get(`input${i}`), get(`exact${i}`)];
    const steps = Number(slider.max);
    if (moved === slider) {
      const value = low + ((high - low) * slider.valueAsNumber) / steps;
      box.value = String(Number(value.toFixed(Math.min(digits, 100))));
    } else if (Number.isFinite(box.valueAsNumber)) {
      slider.value = String(Math.round(((box.valueAsNumber - low) / (high - low)) * steps));
    }
    slider.setAttribute("aria-valuetext", precise(box.valueAsNumber));
  };
  const changed = (event) => {
    const control = event.target.closest(".control");
    if (!control) return;
    const i = Number(control.dataset.input);
    if (inputs[i].kind === "number") match(i, event.target);
    const value = read(i);
    for (const box of control.querySelectorAll("input, select")) {
      if (box.type !== "checkbox") box.disabled = value === null;
    }
    if (value === "" || Number.isNaN(value)) return;
    values[i] = value;
    show();
    follow(i);
    drawSoon();
  };
  // A box that is left without a value shows the one that the prediction is for.
  const restore = (i) => {
    const value = read(i);
    if (values[i] === null || (value !== "" && !Number.isNaN(value))) return;
    get(inputs[i].kind === "number" ? `exact${i}` : `input${i}`).value = String(values[i]);
    if (inputs[i].kind === "number") match(i, get(`exact${i}`));
  };
  const begin = () => {
    values = inputs.map((_, i) => read(i));
    show();
    drawSoon();
  };

  const start = () => {
    const { inputs: known, model } = window.pursuit.description;
    [inputs, answer] = [known, model.answer];
    along = Number(controls[0].dataset.input);
    controls[0].classList.add("followed");
    const curves = answer.kind === "decision" && answer.names.length === 2 ? [answer.names[1]] : answer.names;
    curves.forEach((name, o) => get("output").append(new Option(name, o)));
    if (answer.kind !== "numbers") {
      const label = answer.kind === "decision" ? "value of" : "probability of";
      for (const option of get("output").options) option.text = `${label} ${option.text}`;
      output = curves.length - 1;
      get("output").value = String(output);
    }
    get("along-of").hidden = curves.length < 2;
    get("output").addEventListener("change", (event) => {
      output = Number(event.target.value);
      drawSoon();
    });
    begin();
    form.addEventListener("input", changed);
    form.addEventListener("reset", () => setTimeout(() => {
      for (const box of form.querySelectorAll("input, select")) box.disabled = false;
      inputs.forEach((one, i) => one.kind === "number" && match(i, get(`exact${i}`)));
      begin();
    }));
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const control of controls) {
      const i = Number(control.dataset.input);
      control.addEventListener("pointerenter", () => follow(i));
      control.addEventListener("focusin", () => follow(i));
      control.addEventListener("focusout", () => restore(i));
    }
    form.dataset.ready = "true";
  };
  // After the first paint: it does not wait for the numbers of the model.
  requestAnimationFrame(() => setTimeout(start));
})();

"use strict";
// A number with four digits, and all digits before the point.
const precise = (value) => {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e7) {
    const digits = Math.max(0, 3 - Math.floor(Math.log10(size)));
    return value.toLocaleString("en-US", { maximumFractionDigits: Math.min(digits, 20) });
  }
  return value.toExponential(3);
};

(() => {
  const slider = document.getElementById("size");
  if (!slider) return;
  const { sizes, counted, curves } = JSON.parse(document.getElementById("numbers").textContent);
  const [width, height, edge] = [220, 90, 6];

  const element = (parent, name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  };

  // Sizes on a logarithmic axis; values too, where all of them allow it.
  const places = (curve) => {
    const known = curve.values.filter((value) => value !== null);
    const logarithmic = curve.logarithmic && known.every((value) => value > 0);
    const scale = (value) => (logarithmic ? Math.log(value) : value);
    const [low, high] = [Math.min(...known.map(scale)), Math.max(...known.map(scale))];
    const [first, last] = [Math.log(sizes[0]), Math.log(sizes[sizes.length - 1])];
    return curve.values.map((value, i) => {
      const x = last > first ? (Math.log(sizes[i]) - first) / (last - first) : 0.5;
      if (value === null) return null;
      const y = high > low ? (scale(value) - low) / (high - low) : 0.5;
      return [edge + x * (width - 2 * edge), height - edge - y * (height - 2 * edge)];
    });
  };

  const marks = curves.map((curve, i) => {
    const points = places(curve);
    const picture = document.getElementById(`curve${i}`);
    const line = points.filter((point) => point !== null).map((point) => point.join(","));
    element(picture, "polyline", { points: line.join(" ") });
    const rule = element(picture, "line", { y1: edge, y2: height - edge });
    return { points, rule, dot: element(picture, "circle", { r: 4.5 }) };
  });

  const show = () => {
    const at = Number(slider.value);
    document.getElementById("chosen").value = sizes[at].toLocaleString("en-US");
    slider.setAttribute("aria-valuetext", `${sizes[at]} ${counted}`);
    curves.forEach((curve, i) => {
      const value = curve.values[at];
      const text = value === null ? "not computed" : `${precise(value)} ${curve.unit}`.trim();
      document.getElementById(`value${i}`).value = text;
      const { points, rule, dot } = marks[i];
      const point = points[at];
      for (const part of [rule, dot]) part.style.display = point ? "" : "none";
      if (!point) return;
      rule.setAttribute("x1", point[0]);
      rule.setAttribute("x2", point[0]);
      dot.setAttribute("cx", point[0]);
      dot.setAttribute("cy", point[1]);
    });
  };

  slider.addEventListener("input", show);
  show();
})();

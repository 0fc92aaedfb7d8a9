"use strict";
// A fitted model in a page: window.pursuit.predict(values) for one value per input. Numbers come
// from the block of JSON "model", which estimators/page writes; all arithmetic is in float64.
(() => {
  const holder = document.getElementById("model");
  if (!holder) return;

  // Arrays: base64 of the bytes of little-endian float64, the last two bytes left out where a
  // number has six. Triangles hold their rows one after the other.
  const unpack = ({ bytes, data }) => {
    const text = atob(data);
    const n = text.length / bytes;
    const raw = new Uint8Array(8 * n);
    for (let i = 0, at = 0; i < n; i++) {
      for (let j = 8 - bytes; j < 8; j++) raw[8 * i + j] = text.charCodeAt(at++);
    }
    const view = new DataView(raw.buffer);
    const numbers = new Float64Array(n);
    for (let i = 0; i < n; i++) numbers[i] = view.getFloat64(8 * i, true);
    return numbers;
  };
  const unpackRows = (packed) => {
    const [n, d] = packed.shape;
    return { n, d, data: unpack(packed) };
  };
  const columnsOf = ({ n, d, data }, columns) => {
    const taken = new Float64Array(n * columns.length);
    for (let i = 0; i < n; i++) {
      columns.forEach((column, j) => { taken[i * columns.length + j] = data[i * d + column]; });
    }
    return { n, d: columns.length, data: taken };
  };

  // T⁻¹b and Tb for a lower triangle T.
  const solve = (T, b) => {
    const x = new Float64Array(b.length);
    for (let i = 0, at = 0; i < b.length; i++) {
      let rest = b[i];
      for (let j = 0; j < i; j++) rest -= T[at++] * x[j];
      x[i] = rest / T[at++];
    }
    return x;
  };
  const apply = (T, b) => {
    const x = new Float64Array(b.length);
    for (let i = 0, at = 0; i < b.length; i++) {
      let sum = 0;
      for (let j = 0; j <= i; j++) sum += T[at++] * b[j];
      x[i] = sum;
    }
    return x;
  };
  const square = (x) => x.reduce((sum, value) => sum + value * value, 0);

  // Kernels: {at(x): k(x, z) for every point z, self(x): k(x, x)}.
  const profiles = {
    gaussian: () => (r2) => Math.exp(-0.5 * r2),
    rational: ({ alpha }) => (r2) => Math.exp(-alpha * Math.log1p((0.5 * r2) / alpha)),
    periodic: ({ width }) => (r2) => {
      const r = Math.sqrt(r2);
      const sine = Math.sin(Math.PI * (r - Math.round(r)));
      return Math.exp((-2 * sine * sine) / (width * width));
    },
    matern: ({ slope, polynomial }) => (r2) => {
      const a = Math.min(Math.sqrt(slope * r2), 1000);
      return polynomial.reduceRight((sum, c) => sum * a + c, 0) * Math.exp(-a);
    },
  };
  const eachPoint = (Z, value) => (x) => {
    const k = new Float64Array(Z.n);
    for (let i = 0; i < Z.n; i++) k[i] = value(x, i * Z.d);
    return k;
  };
  // Sums over features j of term(x_j, z_j, j).
  const summed = (Z, term) => (x, at) => {
    let sum = 0;
    for (let j = 0; j < Z.d; j++) sum += term(x[j], Z.data[at + j], j);
    return sum;
  };
  const chi = (x, z) => (x + z > 0 ? ((x - z) * (x - z)) / (x + z) : 0);
  const norm2 = (x) => square(Float64Array.from(x));

  const kinds = {
    stationary(node, Z) {
      const scale = unpack(node.scale);
      const profile = profiles[node.profile.kind](node.profile);
      const r2 = summed(Z, (x, z, j) => ((x - z) * scale[j]) ** 2);
      return {
        at: eachPoint(Z, (x, at) => node.variance * profile(r2(x, at))),
        self: () => node.variance,
      };
    },
    dot(node, Z) {
      const inner = summed(Z, (x, z) => x * z);
      return {
        at: eachPoint(Z, (x, at) => node.weight * inner(x, at) + node.offset),
        self: (x) => node.weight * norm2(x) + node.offset,
      };
    },
    constant: (node, Z) => ({ at: eachPoint(Z, () => node.value), self: () => node.value }),
    columns(node, Z) {
      const part = build(node.part, columnsOf(Z, node.columns));
      const taken = (x) => node.columns.map((column) => x[column]);
      return { at: (x) => part.at(taken(x)), self: (x) => part.self(taken(x)) };
    },
    equal: (node, Z) => ({
      at: eachPoint(Z, (x, at) => (x[0] === Z.data[at] ? 1 : node.correlation)),
      self: () => 1,
    }),
    pairs(node, Z) {
      const [levels, table] = [unpack(node.levels), unpack(node.table)];
      const number = (code) => {
        const at = levels.indexOf(code);
        return at < 0 ? levels.length : at;
      };
      const numbers = Array.from(Z.data, number);
      const width = levels.length + 1;
      return {
        at: eachPoint(Z, (x, at) => table[number(x[0]) * width + numbers[at]]),
        self: () => 1,
      };
    },
    cosine(node, Z) {
      const inner = summed(Z, (x, z) => x * z);
      const lengths = Array.from({ length: Z.n }, (_, i) =>
        Math.sqrt(norm2(Z.data.subarray(i * Z.d, (i + 1) * Z.d))));
      const over = (a, b) => (b > 0 ? a / b : 0);
      return {
        at: eachPoint(Z, (x, at) => over(inner(x, at), Math.sqrt(norm2(x)) * lengths[at / Z.d])),
        self: (x) => (norm2(x) > 0 ? 1 : 0),
      };
    },
    laplacian(node, Z) {
      const distance = summed(Z, (x, z) => Math.abs(x - z));
      return { at: eachPoint(Z, (x, at) => Math.exp(-node.gamma * distance(x, at))), self: () => 1 };
    },
    chi2(node, Z) {
      const distance = summed(Z, chi);
      return { at: eachPoint(Z, (x, at) => Math.exp(-node.gamma * distance(x, at))), self: () => 1 };
    },
    "additive-chi2"(node, Z) {
      const distance = summed(Z, chi);
      return { at: eachPoint(Z, (x, at) => -distance(x, at)), self: () => 0 };
    },
    sum: (node, Z) => combined(node.parts, Z, node.offset, (a, b) => a + b),
    product: (node, Z) => combined(node.parts, Z, node.factor, (a, b) => a * b),
    power: (node, Z) => mapped(node.part, Z, (k) => k ** node.exponent),
    tanh: (node, Z) => mapped(node.part, Z, Math.tanh),
  };
  const combined = (nodes, Z, start, join) => {
    const parts = nodes.map((node) => build(node, Z));
    return {
      at(x) {
        const k = new Float64Array(Z.n).fill(start);
        for (const part of parts) part.at(x).forEach((value, i) => { k[i] = join(k[i], value); });
        return k;
      },
      self: (x) => parts.reduce((value, part) => join(value, part.self(x)), start),
    };
  };
  const mapped = (node, Z, f) => {
    const part = build(node, Z);
    return { at: (x) => part.at(x).map(f), self: (x) => f(part.self(x)) };
  };
  const build = (node, Z) => kinds[node.kind](node, Z);

  // Σ_j k(x, z_j) c_j for every output.
  const sumOf = (part) => {
    const kernel = build(part.kernel, unpackRows(part.points));
    const [C, width] = [unpack(part.coefficients), part.coefficients.shape[1]];
    return {
      kernel,
      values(k) {
        const total = new Array(width).fill(0);
        k.forEach((value, i) => {
          for (let o = 0; o < width; o++) total[o] += value * C[i * width + o];
        });
        return total;
      },
    };
  };

  // erf x = 2/√π exp(-x²) Σ_n 2ⁿx²ⁿ⁺¹/(2n+1)!!, whose terms have one sign.
  const erf = (x) => {
    const size = Math.abs(x);
    if (size > 6) return Math.sign(x);
    let [term, sum] = [size, size];
    for (let n = 1; term > 1e-17 * sum; n++) {
      term *= (2 * size * size) / (2 * n + 1);
      sum += term;
    }
    return (Math.sign(x) * 2 * Math.exp(-size * size) * sum) / Math.sqrt(Math.PI);
  };
  const logistic = (f) => 1 / (1 + Math.exp(-f));
  const clip = (value, low, high) => Math.min(Math.max(value, low ?? -Infinity), high ?? Infinity);

  // Standard deviations of an observation, or what else errors are measured by: one per output.
  const spreads = {
    span(spread) {
      const [R, L] = [unpack(spread.R), unpack(spread.L)];
      const varying = spread.varying && sumOf(spread.varying);
      return (x, f, k, prior) => {
        const V = solve(R, k);
        const missed = Math.max(prior - square(V), 0);
        const guard = (missed / (prior > 0 ? prior : 1)) ** 16;
        const factor =
          spread.missed < 1 ? spread.missed + (1 - spread.missed) * guard : spread.missed;
        let noise = spread.observed;
        if (varying) {
          const h = varying.values(varying.kernel.at(x))[0] + spread.varying.offset;
          noise *= Math.exp(clip(h, -30, 30));
        }
        const variance = factor * missed + spread.noise * square(solve(L, V));
        return spread.scale.map((scale) => scale * Math.sqrt(variance + noise));
      };
    },
    exact(spread) {
      const [L, root] = [unpack(spread.L), unpack(spread.root)];
      return (x, f, k, prior) => {
        const left = Math.max(prior - square(solve(L, k.map((value, i) => value * root[i]))), 0);
        return spread.scale.map((scale) => scale * Math.sqrt(left + spread.observed));
      };
    },
    one: () => (x, f) => f.map(() => 1),
    variance: ({ power, shape }) => (x, f) =>
      f.map((mean) => Math.sqrt(mean ** power + (shape === null ? 0 : (mean * mean) / shape))),
    binary: () => (x, f) => f.map((p) => Math.sqrt(p * (1 - p))),
    quantiles: ({ least }) => (x, f) => [Math.max(0.5 * (f[f.length - 1] - f[0]), least)],
  };
  const links = {
    identity: (f) => f,
    log: (f) => f.map((value) => Math.exp(value)),
    logit: (f) => f.map(logistic),
    sorted: (f) => [...f].sort((a, b) => a - b),
  };

  const answers = {
    numbers(answer) {
      const { spread, interval } = answer;
      const measure = spread && spreads[spread.kind](spread);
      const known = spread && (spread.kind === "span" || spread.kind === "exact");
      return (x, f, k, prior) => {
        const mean = links[answer.link](f);
        const found = { mean, std: null, lower: null, upper: null };
        if (!interval) return found;
        const width = measure(x, mean, k, prior);
        if (known) found.std = width;
        const centre = width.length === mean.length ? mean : [mean[0] + 0.5 * (mean.at(-1) - mean[0])];
        const end = (sign) => centre.map((value, o) => {
          const factor = interval.factors[o % interval.factors.length];
          const slack = 4 * Number.EPSILON * Math.abs(value);
          return clip(value + sign * (factor * width[o] + slack), interval.low, interval.high);
        });
        return { ...found, lower: end(-1), upper: end(1) };
      };
    },
    decision: () => (x, f) => ({
      mean: f,
      label: f.length === 1 ? Number(f[0] > 0) : f.indexOf(Math.max(...f)),
    }),
    probabilities(answer) {
      const W = unpack(answer.whitener);
      const factors = answer.factors.map(unpack);
      const half = 0.5 * answer.shares.reduce((sum, share) => sum + share, 0);
      const averaged = (mean, variance) => {
        const p = answer.steepness.reduce((sum, slope, i) => sum + 0.5 * answer.shares[i]
          * erf((slope * mean) / Math.sqrt(1 + 2 * slope * slope * variance)), half);
        const plain = logistic(mean);
        return clip(p, Math.min(plain, 0.5), Math.max(plain, 0.5));
      };
      return (x, f, k, prior) => {
        const V = apply(W, k);
        const missed = answer.prior * Math.max(prior - square(V), 0);
        const share = missed / (prior > 0 ? answer.prior * prior : 1);
        const beyond = clip((share - answer.seen) / Math.max(1 - answer.seen, 1e-12), 0, 1);
        const factor = answer.missed + (1 - answer.missed) * beyond ** 2;
        const p = f.map((mean, c) =>
          averaged(mean, answer.spread * square(solve(factors[c], V)) + factor * missed));
        const total = p.reduce((sum, value) => sum + value, 0);
        const even = p.map((value) => (total > 0 ? value / total : 1 / p.length));
        const probabilities = p.length === 1 ? [1 - p[0], p[0]] : even;
        return { mean: f, probabilities, label: probabilities.indexOf(Math.max(...probabilities)) };
      };
    },
  };

  // Features of the model from the values of the inputs; a missing value is null.
  const day = 86400000;
  const daysOf = (text) => Date.parse(text.length > 10 ? `${text}Z` : text) / day;
  // The place of days since 1970 in their year, week or day, from 0 to 1.
  const places = {
    day: (days) => days - Math.floor(days),
    // 1970 began on a Thursday, and weeks begin on Mondays.
    week: (days) => (((days + 3) % 7) + 7) % 7 / 7,
    year(days) {
      const year = new Date(Math.floor(days) * day).getUTCFullYear();
      const [start, stop] = [Date.UTC(year, 0, 1) / day, Date.UTC(year + 1, 0, 1) / day];
      return (days - start) / (stop - start);
    },
  };
  const known = ({ input, fill }, number) => (values) =>
    (values[input] === null ? fill : number(values[input]));
  const features = {
    value: (feature) => known(feature, Number),
    code: (feature) => known(feature, (at) => feature.codes[at] ?? feature.codes.at(-1)),
    missing: ({ input }) => (values) => Number(values[input] === null),
    day: (feature) => known(feature, daysOf),
    place(feature) {
      const days = known(feature, daysOf);
      return (values) => Math[feature.wave](2 * Math.PI * places[feature.period](days(values)));
    },
  };

  const modelOf = (description) => {
    const { model } = description;
    const row = description.features.map((feature) => features[feature.kind](feature));
    const parts = model.parts.map(sumOf);
    const offset = unpack(model.offset);
    const answer = answers[model.answer.kind](model.answer);
    return (values) => {
      const x = row.map((feature) => feature(values));
      const f = Array.from(offset);
      let [k, prior] = [null, 0];
      for (const part of parts) {
        k = part.kernel.at(x);
        prior = part.kernel.self(x);
        part.values(k).forEach((value, o) => { f[o] += value; });
      }
      return answer(x, f, k, prior);
    };
  };

  let [description, run] = [null, null];
  window.pursuit = {
    // What the page holds, read at the first use: the first paint does not wait for it.
    get description() {
      description ??= JSON.parse(holder.textContent);
      return description;
    },
    // {mean, std, lower, upper} of numbers, {mean, probabilities, label} of classes; mean has one
    // entry per output. A value is a number, the position of a level (beyond the last level it is
    // one that the model has not seen), an ISO date, or null where it is missing.
    predict(values) {
      run ??= modelOf(window.pursuit.description);
      return run(values);
    },
  };
})();

// Pictures for a model of images: drawn with a pen, a finger or a mouse, or taken from a file; made the size that the
// model reads, as numbers from 0 to 255, channel after channel.
const by = (id) => document.getElementById(id);

export class Picture {
  constructor(changed) {
    this.changed = changed;
    this.shape = [1, 28, 28];
    this.pixels = null; // null: nothing yet
    this.pad = by("draw").getContext("2d", { willReadFrequently: true });
    this.listen();
  }

  // Small grey pictures can be drawn; for others a file is wanted.
  set(shape) {
    this.shape = shape;
    by("of-drawing").hidden = !(shape[0] === 1 && shape[1] <= 64 && shape[2] <= 64);
    [by("seen").height, by("seen").width] = [shape[1], shape[2]];
    this.clear();
  }

  clear() {
    this.pixels = null;
    this.pad.fillStyle = "#000";
    this.pad.fillRect(0, 0, 280, 280);
    by("file").value = "";
    by("seen").getContext("2d").clearRect(0, 0, this.shape[2], this.shape[1]);
  }

  listen() {
    const canvas = by("draw"), drop = by("drop");
    let last = null, wait = 0;
    const place = (e) => {
      const box = canvas.getBoundingClientRect();
      return [((e.clientX - box.left) * 280) / box.width, ((e.clientY - box.top) * 280) / box.height];
    };
    const line = (from, to) => {
      Object.assign(this.pad, { strokeStyle: "#fff", lineWidth: 22, lineCap: "round", lineJoin: "round" });
      this.pad.beginPath();
      this.pad.moveTo(...from);
      this.pad.lineTo(...to);
      this.pad.stroke();
      clearTimeout(wait);
      wait = setTimeout(() => this.take_drawing(), 250);
    };
    canvas.addEventListener("pointerdown", (e) => {
      canvas.setPointerCapture(e.pointerId);
      last = place(e);
      line(last, last);
    });
    canvas.addEventListener("pointermove", (e) => {
      if (!last) return;
      const now = place(e);
      line(last, now);
      last = now;
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { last = null; });
    by("file").addEventListener("change", () => this.take_file(by("file").files[0]));
    drop.addEventListener("dragover", (e) => { e.preventDefault(); drop.classList.add("over"); });
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (e) => {
      e.preventDefault();
      drop.classList.remove("over");
      this.take_file(e.dataTransfer.files[0]);
    });
  }

  // As MNIST was made: what was drawn fills 20 of 28 pixels and has its mass in the middle.
  take_drawing() {
    const { data } = this.pad.getImageData(0, 0, 280, 280);
    let [left, top, right, bottom, mass, mx, my] = [280, 280, -1, -1, 0, 0, 0];
    for (let y = 0; y < 280; y++)
      for (let x = 0; x < 280; x++) {
        const v = data[4 * (280 * y + x)];
        if (v < 40) continue;
        [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
        mass += v;
        mx += v * x;
        my += v * y;
      }
    if (mass === 0) return;
    const [, high, wide] = this.shape;
    const scale = (20 / 28) * Math.min(high, wide) / Math.max(right - left + 1, bottom - top + 1);
    this.take((g) => {
      g.fillStyle = "#000";
      g.fillRect(0, 0, wide, high);
      g.drawImage(by("draw"), wide / 2 - scale * (mx / mass), high / 2 - scale * (my / mass), 280 * scale, 280 * scale);
    });
  }

  // The middle of it, as large as fits; dark ink on light paper is turned round for grey models.
  async take_file(file) {
    if (!file) return;
    let image;
    try {
      image = await createImageBitmap(file);
    } catch {
      this.changed(`${file.name} is no picture that this browser can read.`);
      return;
    }
    const [channels, high, wide] = this.shape;
    const scale = Math.max(wide / image.width, high / image.height);
    const [w, h] = [image.width * scale, image.height * scale];
    const put = (g) => g.drawImage(image, (wide - w) / 2, (high - h) / 2, w, h);
    this.take(put, channels === 1 && by("of-drawing").hidden === false);
  }

  take(put, may_turn = false) {
    const [channels, high, wide] = this.shape;
    const g = by("seen").getContext("2d", { willReadFrequently: true });
    g.imageSmoothingQuality = "high";
    put(g);
    const image = g.getImageData(0, 0, wide, high), d = image.data, n = wide * high;
    const grey = (i) => Math.round(0.299 * d[4 * i] + 0.587 * d[4 * i + 1] + 0.114 * d[4 * i + 2]);
    if (may_turn) {
      let edge = 0;
      for (let x = 0; x < wide; x++) edge += grey(x) + grey(n - 1 - x);
      if (edge / (2 * wide) > 127) for (let i = 0; i < 4 * n; i++) if (i % 4 !== 3) d[i] = 255 - d[i];
    }
    const pixels = [];
    for (let c = 0; c < channels; c++)
      for (let i = 0; i < n; i++) pixels.push(channels === 1 ? grey(i) : d[4 * i + c]);
    if (channels === 1) for (let i = 0; i < n; i++) d[4 * i] = d[4 * i + 1] = d[4 * i + 2] = pixels[i];
    g.putImageData(image, 0, 0);
    this.pixels = pixels;
    this.changed("");
  }
}

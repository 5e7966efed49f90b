// Masks: from COCO run lengths to something a canvas can draw.

/** Run lengths down the columns to one byte a pixel, row by row. */
export function decode(rle) {
  const [height, width] = rle.size, bits = new Uint8Array(height * width);
  let place = 0, value = 0;
  for (const count of rle.counts) {
    if (value) for (let end = place + count, p = place; p < end; p++) bits[(p % height) * width + Math.floor(p / height)] = 1;
    place += count; value = 1 - value;
  }
  return { width, height, bits };
}

/** A mask as a picture of one colour, with its border darker. */
export function tinted(rle, [red, green, blue]) {
  const { width, height, bits } = decode(rle);
  const canvas = document.createElement("canvas");
  canvas.width = width; canvas.height = height;
  const context = canvas.getContext("2d"), image = context.createImageData(width, height), data = image.data;
  for (let y = 0, p = 0; y < height; y++) for (let x = 0; x < width; x++, p++) {
    if (!bits[p]) continue;
    const edge = !x || !y || x === width - 1 || y === height - 1 || !bits[p - 1] || !bits[p + 1] || !bits[p - width] || !bits[p + width];
    data[4 * p] = red; data[4 * p + 1] = green; data[4 * p + 2] = blue; data[4 * p + 3] = edge ? 255 : 170;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

export const DRAFT = [255, 122, 26], OBJECT = [47, 128, 237];

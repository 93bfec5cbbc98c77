/**
 * What goes over the socket of a session: frames of one byte that says their kind, and a payload. Both ends have
 * at most a window's worth under way, and go on as the other says what it has taken in (nodeagent/frames.py).
 */

const code = (letter: string) => letter.charCodeAt(0);

export const INPUT = code("i");
export const OUTPUT = code("o");
export const TAKEN = code("t");
export const SIZE = code("s");
export const OPENED = code("b");
export const EXIT = code("x");
export const PROBLEM = code("p");

export const WINDOW = 256 * 1024;
const COST_OF_ONE = 1024;
const DATA_BYTES = 32 * 1024;

export type Frame = Uint8Array<ArrayBuffer>;

export function frameOf(kind: number, payload: Uint8Array): Frame {
  const frame = new Uint8Array(payload.length + 1);
  frame[0] = kind;
  frame.set(payload, 1);
  return frame;
}

/** What a frame takes of the window; word of what was taken in takes nothing. */
export function cost(frame: Frame): number {
  return frame[0] === TAKEN ? 0 : frame.length + COST_OF_ONE;
}

export function sizeFrame(rows: number, columns: number): Frame {
  const payload = new DataView(new ArrayBuffer(4));
  payload.setUint16(0, rows);
  payload.setUint16(2, columns);
  return frameOf(SIZE, new Uint8Array(payload.buffer));
}

/** One end's account of both directions: `send` is given what may go out, in order. */
export class Flow {
  private left = WINDOW;
  private owed = 0;
  private waiting: Frame[] = [];

  constructor(private readonly send: (frame: Frame) => void) {}

  /** Send bytes, at once or when there is room. */
  data(payload: Uint8Array): void {
    for (let start = 0; start < payload.length; start += DATA_BYTES) {
      this.frame(frameOf(INPUT, payload.subarray(start, start + DATA_BYTES)));
    }
  }

  frame(frame: Frame): void {
    this.waiting.push(frame);
    this.go();
  }

  /** Take in word of what the other end has taken in. */
  regain(frame: Frame): void {
    if (frame.length !== 5) return;
    this.left = Math.min(WINDOW, this.left + new DataView(frame.buffer, frame.byteOffset).getUint32(1));
    this.go();
  }

  /** Count a frame as taken in, and let the other end know now and then. */
  consumed(frame: Frame): void {
    this.owed += cost(frame);
    if (this.owed < WINDOW / 4) return;
    const payload = new DataView(new ArrayBuffer(4));
    payload.setUint32(0, this.owed);
    this.owed = 0;
    this.send(frameOf(TAKEN, new Uint8Array(payload.buffer)));
  }

  private go(): void {
    for (let next = this.waiting[0]; next && cost(next) <= this.left; next = this.waiting[0]) {
      this.left -= cost(next);
      this.waiting.shift();
      this.send(next);
    }
  }
}

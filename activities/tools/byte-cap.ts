/**
 * Bounds the memory that one response may take, whatever the server sends.
 *
 * 1. A plain body is bounded as a whole; an event stream per event, because a long call may report progress for hours.
 * 2. Counted after decompression: a small compressed body may be a large one.
 */

/** Thrown into the body's reader; the capped response also tells its owner. */
export class ResponseTooLarge extends Error {
  override readonly name = 'ResponseTooLarge';
  constructor(maxBytes: number) {
    super(`the response is larger than ${maxBytes} bytes`);
  }
}

export interface ByteCap {
  readonly maxBytes: number;
  readonly onExceeded: () => void;
  /** Of each chunk, after decompression. */
  readonly onBytes?: (count: number) => void;
}

const LF = 0x0a;
const CR = 0x0d;

/** The same response, whose body fails once it is too large. */
export function capResponse(response: Response, { maxBytes, onExceeded, onBytes }: ByteCap): Response {
  const { body } = response;
  if (body === null) return response;
  const perEvent = isEventStream(response);
  let count = 0;
  let last = 0;
  const counter = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      onBytes?.(chunk.length);
      const boundary = perEvent ? lastBoundary(chunk, last) : -1;
      // Events that end inside one chunk are counted with what came before them: at most a chunk too much.
      const whole = count + (boundary === -1 ? chunk.length : boundary);
      count = boundary === -1 ? whole : chunk.length - boundary;
      last = chunk.at(-1) ?? last;
      if (whole <= maxBytes && count <= maxBytes) return controller.enqueue(chunk);
      onExceeded();
      controller.error(new ResponseTooLarge(maxBytes));
    },
  });
  const { status, statusText, headers } = response;
  return new Response(body.pipeThrough(counter), { status, statusText, headers });
}

export function isEventStream(response: Response): boolean {
  return /^\s*text\/event-stream\s*(?:;|$)/i.test(response.headers.get('content-type') ?? '');
}

/** Index after the last empty line of `chunk`, which ends an event (WHATWG HTML §9.2.5); -1 where none ends in it. */
function lastBoundary(chunk: Uint8Array, before: number): number {
  for (let at = chunk.length - 1; at >= 0; at -= 1) {
    const byte = chunk[at];
    if (byte !== LF && byte !== CR) continue;
    const previous = at > 0 ? chunk[at - 1] : before;
    const secondPrevious = at > 1 ? chunk[at - 2] : at === 1 ? before : undefined;
    const crlf = byte === LF && previous === CR;
    if (crlf ? secondPrevious === LF : previous === byte) return at + 1;
  }
  return -1;
}

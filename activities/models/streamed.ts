/** Tells an answer that is a stream of events from one that is none, whatever its server calls it. */
import type { JsonObject } from '../../contracts/schemas/json.ts';
import { fieldsOf, parsedJson } from '../kit/json.ts';

/** An answer came that is no stream: a page, or one JSON document. */
export class NotStreamed extends Error {
  override readonly name = 'NotStreamed';
  /** The document; undefined of a page. */
  readonly body: JsonObject | undefined;

  constructor(body: NotStreamed['body']) {
    super('the answer is no event stream');
    this.body = body;
  }
}

/**
 * Returns an answer as a stream of events. Whoever reads them takes one that is none for a stream that broke off, and
 * each further one is paid for.
 * @throws NotStreamed
 */
export async function streamed(response: Response): Promise<Response> {
  const [type = ''] = (response.headers.get('content-type') ?? '').toLowerCase().split(';');
  const isPage = type.trim() === 'text/html';
  if (response.status !== 200 || response.body === null || !(isPage || type.trim() === 'application/json'))
    return response;
  if (isPage) {
    await response.body.cancel();
    throw new NotStreamed(undefined);
  }
  const { first, body } = await begun(response.body);
  const headers = new Headers(response.headers);
  headers.set('content-type', 'text/event-stream');
  // Events under a wrong name. They are read as they come: who waits for an answer hears that it goes on.
  if (first !== '{' && first !== '[') return new Response(body, { headers });
  const text = await new Response(body).text();
  const document = parsedJson(text);
  if (document !== undefined) throw new NotStreamed(fieldsOf(document));
  // It may have been cut, and come whole the next time.
  return new Response(text, { headers });
}

/** Returns the first character of a body that is no space, or an empty text, and the whole body. */
async function begun(given: ReadableStream<Uint8Array<ArrayBuffer>>) {
  const [looked, body] = given.tee();
  let first = '';
  for await (const chunk of looked.values({ preventCancel: true })) {
    first = Buffer.from(chunk).toString('latin1').trimStart().charAt(0);
    if (first !== '') break;
  }
  // Not awaited: it is done once the other reader is done, too.
  looked.cancel().catch(() => undefined);
  return { first, body };
}

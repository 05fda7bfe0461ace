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

/** Else an answer that is no stream would count as one that broke off, and be paid for again. @throws NotStreamed */
export async function streamed(response: Response): Promise<Response> {
  const [type = ''] = (response.headers.get('content-type') ?? '').toLowerCase().split(';');
  const isPage = type.trim() === 'text/html';
  if (response.status !== 200 || response.body === null || !(isPage || type.trim() === 'application/json'))
    return response;
  if (isPage) {
    await response.body.cancel();
    throw new NotStreamed(undefined);
  }
  const text = await response.text();
  const document = parsedJson(text);
  if (document !== undefined) throw new NotStreamed(fieldsOf(document));
  // Events under a wrong name, or a document that was cut and may come whole the next time.
  const headers = new Headers(response.headers);
  headers.set('content-type', 'text/event-stream');
  return new Response(text, { headers });
}

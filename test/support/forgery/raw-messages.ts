/**
 * Sends messages as any namespace writer can: by gRPC, with payloads and headers that no client library
 * makes.
 */
import { randomUUID } from 'node:crypto';
import type { Client } from '@temporalio/client';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

export function encoded(
  encoding: string,
  data: string | Uint8Array,
  more: Readonly<Record<string, string>> = {},
): Payload {
  const metadata = Object.entries({ encoding, ...more }).map(([name, value]) => [name, bytes(value)]);
  return { metadata: Object.fromEntries(metadata), data: typeof data === 'string' ? bytes(data) : data };
}

export function readable(value: unknown): Payload {
  return defaultPayloadConverter.toPayload(value);
}

/** Payloads that cannot be read as a message; each would make the SDK's converter or a handler throw. */
export const BAD_PAYLOADS: Readonly<Record<string, readonly Payload[]>> = {
  'no payload': [],
  'a brace': [encoded('json/plain', '{')],
  'no data': [{ metadata: { encoding: bytes('json/plain') } }],
  'no metadata': [{ data: bytes('{}') }],
  'metadata of another name': [{ metadata: { type: bytes('json/plain') }, data: bytes('{}') }],
  'another encoding': [encoded('binary/encrypted', 'xyz')],
  'the encoding of a key that is not here': [encoded('binary/countersign-aes256gcm', 'xyz', { 'key-id': 'gone' })],
  'the mark of the codec': [encoded('countersign/undecodable', '{"kind":"approve"}', { reason: 'sealed' })],
  'too many levels': [encoded('json/plain', `${'['.repeat(5_000)}${']'.repeat(5_000)}`)],
  bytes: [encoded('binary/plain', new Uint8Array(100_000))],
  null: [encoded('json/plain', 'null')],
  'two of them': [encoded('json/plain', '{'), encoded('binary/encrypted', 'xyz')],
};

/** Headers in place of a trace. */
export const BAD_HEADERS: readonly Payload[] = [
  encoded('json/plain', '{'),
  {},
  encoded('binary/encrypted', 'xyz'),
  encoded('json/plain', 'null'),
  // Converting this value to text throws.
  encoded('json/plain', '{"traceparent":"00","tracestate":[{"toString":1,"valueOf":1}]}'),
];

/** Sends to one workflow id of a namespace. */
export class RawSender {
  readonly #client: Client;
  readonly #workflowId: string;

  constructor(client: Client, workflowId: string) {
    this.#client = client;
    this.#workflowId = workflowId;
  }

  async start(type: string, taskQueue: string, payloads: readonly Payload[], header?: Payload): Promise<void> {
    await this.#client.workflowService.startWorkflowExecution({
      namespace: this.#client.options.namespace,
      workflowId: this.#workflowId,
      workflowType: { name: type },
      taskQueue: { name: taskQueue },
      requestId: randomUUID(),
      input: { payloads: [...payloads] },
      ...headerOf(header),
    });
  }

  async signal(signalName: string, payloads: readonly Payload[], header?: Payload): Promise<void> {
    await this.#client.workflowService.signalWorkflowExecution({
      ...this.#about,
      signalName,
      requestId: randomUUID(),
      input: { payloads: [...payloads] },
      ...headerOf(header),
    });
  }

  /**
   * Sends an update.
   * @returns the type of its failure; undefined if it is accepted
   */
  async update(name: string, payloads: readonly Payload[], header?: Payload): Promise<string | undefined> {
    const { outcome } = await this.#client.workflowService.updateWorkflowExecution({
      ...this.#about,
      // Lifecycle stage "completed".
      waitPolicy: { lifecycleStage: 3 },
      request: {
        meta: { updateId: randomUUID() },
        input: { name, args: { payloads: [...payloads] }, ...headerOf(header) },
      },
    });
    if (outcome === null || outcome === undefined) throw new Error(`update ${name} has no outcome`);
    return outcome.failure?.applicationFailureInfo?.type ?? undefined;
  }

  /**
   * Sends a query.
   * @returns the text of its error; undefined if it is answered
   */
  async query(queryType: string, payloads: readonly Payload[], header?: Payload): Promise<string> {
    try {
      await this.#client.workflowService.queryWorkflow({
        namespace: this.#client.options.namespace,
        execution: { workflowId: this.#workflowId },
        query: { queryType, queryArgs: { payloads: [...payloads] }, ...headerOf(header) },
      });
      return 'answered';
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }

  get #about() {
    return { namespace: this.#client.options.namespace, workflowExecution: { workflowId: this.#workflowId } };
  }
}

function headerOf(header: Payload | undefined) {
  return header === undefined ? {} : { header: { fields: { '_tracer-data': header } } };
}

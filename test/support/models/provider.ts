/**
 * Serves a model provider on loopback. It answers from a queue in the provider's own protocol, and checks
 * each request against the shape that the provider publishes.
 */
import { readFileSync } from 'node:fs';
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { Validator } from '@cfworker/json-schema';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import { bodyOf, listenOnLoopback } from '../servers/loopback-server.ts';

export interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly chunks: readonly string[];
  /** `end` closes properly; `reset` breaks the connection after the chunks; `hang` waits until the client leaves. */
  readonly ending: 'end' | 'reset' | 'hang';
}

export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: JsonObject;
  /** Violations of the published shape; empty if the request fits. */
  readonly violations: readonly string[];
}

export interface ModelProvider {
  readonly baseUrl: string;
  readonly received: readonly Received[];
  enqueue(...replies: readonly Reply[]): void;
  /** Resolves when a `hang` reply has sent its chunks. The result resolves when the client leaves. */
  hanging(): Promise<{ readonly left: Promise<void> }>;
  close(): Promise<void>;
}

/** @param schema name of a file in `schemas/` */
export async function startModelProvider(schema: string): Promise<ModelProvider> {
  const shape: unknown = JSON.parse(readFileSync(new URL(`schemas/${schema}.json`, import.meta.url), 'utf8'));
  // Sound: the files beside this one are JSON Schemas.
  const validator = new Validator(shape as JsonObject, '2020-12', false);
  const received: Received[] = [];
  const replies: Reply[] = [];
  const hangs = new Arrivals<{ left: Promise<void> }>();

  const server = await listenOnLoopback((request, response) => {
    void bodyOf(request).then((text) => {
      // Sound: every client under test sends a JSON object; anything else fails the shape.
      const body = JSON.parse(text) as JsonObject;
      const { valid, errors } = validator.validate(body);
      const violations = valid ? [] : errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`);
      received.push({ path: request.url ?? '', headers: request.headers, body, violations });
      const reply = replies.shift() ?? { status: 500, chunks: ['{"error":{"message":"no reply"}}'], ending: 'end' };
      send(reply, response, (left) => hangs.arrive({ left }));
    });
  });
  return {
    baseUrl: `${server.origin}/v1`,
    received,
    enqueue: (...more) => void replies.push(...more),
    hanging: () => hangs.next(),
    close: server.close,
  };
}

function send(reply: Reply, response: ServerResponse, onHang: (left: Promise<void>) => void): void {
  if (reply.ending === 'reset' && reply.chunks.length === 0) {
    response.socket?.resetAndDestroy();
    return;
  }
  const contentType = reply.status === 200 ? 'text/event-stream' : 'application/json';
  response.writeHead(reply.status, { 'content-type': contentType, ...reply.headers });
  const left = new Promise<void>((resolve) => response.once('close', resolve));
  for (const chunk of reply.chunks.slice(0, -1)) response.write(chunk);
  const last = reply.chunks.at(-1) ?? '';
  if (reply.ending === 'end') response.end(last);
  else
    response.write(last, () => {
      if (reply.ending === 'reset') response.socket?.resetAndDestroy();
      else onHang(left);
    });
}

/** Events that can be awaited before or after they happen. */
class Arrivals<T> {
  readonly #arrived: T[] = [];
  readonly #waiting: ((value: T) => void)[] = [];

  arrive(value: T): void {
    const waiter = this.#waiting.shift();
    if (waiter === undefined) this.#arrived.push(value);
    else waiter(value);
  }

  async next(): Promise<T> {
    return this.#arrived.shift() ?? new Promise((resolve) => this.#waiting.push(resolve));
  }
}

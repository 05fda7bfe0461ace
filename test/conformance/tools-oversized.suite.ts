/** Answers that are larger than this service reads: whether the tool has run is known all the same, or it is said that it is not. */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { CallEnding } from '../../activities/mcp/port.ts';
import { aCall, aConnection } from '../support/mcp-call.ts';
import { acts, type CallExchange, type RawServer, startRawServer } from '../support/mcp-raw-server.ts';
import type { ToolServerHarness } from './tools.suite.ts';

const MIB = 1_048_576;
const EVENTS = 'text/event-stream';
/** Each is two values by their marks, and three bytes. */
const OBJECTS = `[${'{},'.repeat(260_000)}0]`;

export function oversizedSuite({ name, create }: ToolServerHarness): void {
  describe.each(['modern', 'legacy'] as const)(`${name}: oversized answers of a %s server`, (era) => {
    let server: RawServer;
    beforeEach(async () => void (server = await startRawServer({ era })));
    afterEach(async () => server.close());

    const endingOf = async (does: (exchange: CallExchange) => void): Promise<CallEnding> => {
      server.become({
        era,
        onCall: acts((exchange) => does(exchange)),
      });
      const ending = await create({}).call(aConnection({ url: server.url }), aCall());
      expect(server.executions()).toBe(1);
      return ending;
    };

    /** It has run, and what it came to is gone. */
    const LOST = { kind: 'executed', isError: false, result: { warnings: [expect.stringContaining('larger than')] } };
    const UNKNOWN = {
      kind: 'unknown',
      code: 'OUTCOME_UNKNOWN',
      message: expect.stringContaining('in its stream is larger than'),
    };
    const objectsFor = (id: unknown): string =>
      `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":[],"structuredContent":{"x":${OBJECTS}}}}`;

    test('an answer beyond what is read counts as executed and is said to be lost', async () => {
      const ending = await endingOf(({ response }) =>
        pour(response, 'application/json', '{"jsonrpc":"2.0","id":0,"result":{"x":"'),
      );
      expect(ending).toMatchObject(LOST);
    });

    test('INV-X1: so does one of more values than are read; it is not parsed', async () => {
      expect(await endingOf(({ json, id }) => json(objectsFor(id)))).toMatchObject(LOST);
    });

    test('what a text holds is not counted: a table of two million commas is kept', async () => {
      const text = '"a",[b],{c},\\\n'.repeat(600_000);
      const ending = await endingOf(({ result }) => result({ content: [{ type: 'text', text }] }));
      expect(ending).toMatchObject({ kind: 'executed', result: { full: { contentType: 'application/json' } } });
      expect(ending).not.toHaveProperty('result.warnings');
    });

    test.each<[string, (exchange: CallExchange) => void]>([
      [
        'a result of more bytes',
        ({ response, id }) =>
          pour(response, EVENTS, `data: {"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"x":"`),
      ],
      [
        'a notification of more bytes',
        ({ response }) =>
          pour(response, EVENTS, 'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"'),
      ],
      ['a result of more values', ({ stream, id }) => stream(`data: ${objectsFor(id)}\n\n`)],
    ])('%s than are read, in a stream, does not say that the tool has run: nobody saw what it was', async (_, does) => {
      const ending = await endingOf(does);
      expect(ending).toMatchObject(UNKNOWN);
      expect(ending).not.toHaveProperty('fault');
    });

    test('progress of more bytes than a result may have is no result that is too large', async () => {
      const ending = await endingOf(({ response, answerWith }) => {
        response.writeHead(200, { 'content-type': EVENTS });
        const comment = `: ${'x'.repeat(MIB)}\n\n`;
        for (let sent = 0; sent < 33; sent += 1) response.write(comment);
        response.end(`data: ${answerWith({ content: [{ type: 'text', text: 'at last' }] })}\n\n`);
      });
      expect(ending).toMatchObject({ result: { content: [{ type: 'text', text: 'at last' }] } });
    });
  });
}

/** More than 32 MiB, as fast as it is read. */
function pour(response: CallExchange['response'], contentType: string, head: string): void {
  response.writeHead(200, { 'content-type': contentType });
  response.write(head);
  const block = Buffer.alloc(MIB, 'x');
  let left = 34;
  const more = (): void => {
    while (left > 0) {
      left -= 1;
      if (!response.write(block)) return void response.once('drain', more);
    }
    response.end('"}}');
  };
  more();
}

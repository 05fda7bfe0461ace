/**
 * What a tool server may do to a call, and what must be said of it: the kind of ending, its code, and the number of times that
 * the tool really ran, as the server counted it.
 */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { aCall, aConnection } from '../support/mcp-call.ts';
import { type CallExchange, type Era, type RawServer, startRawServer } from '../support/mcp-raw-server.ts';
import { HTTP_FAILURES } from './tools-failure-http.ts';
import { MCP_FAILURES } from './tools-failure-mcp.ts';
import type { FailureRow } from './tools-failure-row.ts';
import type { ToolServerHarness } from './tools.suite.ts';

export const FAILURE_ROWS = [...HTTP_FAILURES, ...MCP_FAILURES];

export function failureSuite({ name, create }: ToolServerHarness): void {
  describe.each(['modern', 'legacy'] as const)(
    `${name}: every failure of a %s server ends in the right outcome (F7, F8, F9, F11, INV-X1)`,
    (era) => {
      let server: RawServer;
      beforeEach(async () => void (server = await startRawServer({ era })));
      afterEach(async () => server.close());

      test.each(FAILURE_ROWS.filter(({ eras }) => eras?.includes(era) !== false))(
        '$id $title',
        async ({ does, ends, executions, connection, call, resumes = true }) => {
          serveRow(server, era, { does, resumes });
          const toolServer = create();
          const ending = await toolServer.call(aConnection({ url: server.url, ...connection }), aCall(call));
          expect(ending).toMatchObject(ends);
          expect(server.executions()).toBe(executions);
          // Sent once, whatever came of it.
          expect(server.seen.filter(({ rpcMethod }) => rpcMethod === 'tools/call')).toHaveLength(1);
        },
      );
    },
  );
}

/** What a server of a row does from now on, the resumption of a broken stream included. */
export function serveRow(
  server: RawServer,
  era: Era,
  { does, resumes = true }: Pick<FailureRow, 'does'> & { resumes?: boolean },
): void {
  let broken: CallExchange | undefined;
  server.become({
    era,
    onCall: (exchange) => {
      broken = exchange;
      does(exchange);
    },
    intercept: (request, response) => {
      if (!resumes || request.headers['last-event-id'] === undefined || broken === undefined) return false;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(`id: 2\ndata: ${broken.answerWith({ content: [] })}\n\n`);
      return true;
    },
  });
}

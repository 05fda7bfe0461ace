/**
 * Answers what Node could not read as a request: no route, no hook and no person has seen it, and the answer is a problem
 * like every other one.
 */
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';
import { problemOf } from './problem.ts';

export function refuseUnread(error: unknown, socket: Socket, headers: Readonly<Record<string, string>>): void {
  const code = nodeCodeOf(error);
  // Nobody reads an answer.
  if (code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const problem = problemOf(unreadAs(code), randomUUID());
  const body = JSON.stringify(problem);
  const lines = {
    ...headers,
    'content-type': 'application/problem+json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    'x-request-id': problem.requestId,
    connection: 'close',
  };
  const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`);
  // Words after the status may be left out (RFC 9112 §4).
  socket.end(`HTTP/1.1 ${problem.status} \r\n${head.join('')}\r\n${body}`);
}

function unreadAs(code: string | undefined): CountersignError {
  if (code === 'HPE_HEADER_OVERFLOW')
    return new CountersignError(
      'HEADERS_TOO_LARGE',
      'Path and headers have more bytes than this gateway takes. Nothing was changed.',
    );
  const reason = code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 'did not arrive whole in time' : 'is no HTTP/1.1';
  return new CountersignError('BODY_UNREADABLE', `The request ${reason}. Nothing was changed; send it again.`);
}

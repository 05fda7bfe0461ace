/** Makes calls whose server wants another authorization, and people's answers to that. */
import { decodeJwt } from 'jose';
import type { RunHandle } from '../../client/index.ts';
import type { ApprovalRequest, AuthorizationInput } from '../../contracts/schemas/request.ts';
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import { succeedWith } from './mcp-raw-server.ts';
import { until } from './until.ts';

/** Waits until the run asks for an authorization of a call. */
export async function wantedFor(run: RunHandle, callId = 't1.c0', round = 1): Promise<ApprovalRequest> {
  return await until(
    async () =>
      (await run.requests()).find(
        ({ callId: id, status, about }) =>
          id === callId && status === 'open' && about?.kind === 'authorization' && about.round === round,
      ),
    { what: `${run.runId} asks for an authorization of ${callId}`, withinMs: 60_000 },
  );
}

let answers = 0;

type Said =
  | { readonly kind: 'consent' }
  | { readonly kind: 'grant'; readonly grant: Grant }
  | { readonly kind: 'decline'; readonly reason: string };

export function authorizationOf(request: ApprovalRequest, approver: string, said: Said): AuthorizationInput {
  answers += 1;
  return {
    ...said,
    decisionId: `authorization-${process.pid}-${answers}`,
    callId: request.callId,
    digest: request.digest,
    runId: request.runId,
    approver: { id: approver, groups: [] },
  };
}

/** Answers 403 until the token has the scope. */
export const wants = (scope: string) => (exchange: Parameters<ReturnType<typeof succeedWith>>[0], attempt: number) => {
  const token = exchange.request.headers.authorization?.replace(/^Bearer /, '') ?? '';
  if (String(decodeJwt(token)['scope']).split(' ').includes(scope)) return succeedWith('done')(exchange, attempt);
  return exchange.status(403, { 'www-authenticate': `Bearer error="insufficient_scope", scope="${scope}"` });
};

/** What a person is told to do next says what is asked: consent, what became of a call, answers, or an authorization. */
import { expect, test } from '@jest/globals';
import { plain } from '../../../../cli/session/terminal.ts';
import { requestsAnswer } from '../../../../cli/verbs/requests.ts';
import { defined } from '../../../../contracts/defined.ts';
import type { Pause } from '../../../../contracts/schemas/request.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';
import { outcomePause } from '../../../support/builders/pause.ts';

function nextOf(about: Pause | undefined): string {
  const request = { ...approvalRequest(), ...defined({ about }) };
  return requestsAnswer('nightly', [request], {}).text(plain).split('\n').at(-1) ?? '';
}

const asked = { kind: 'authorization', server: 'files', reason: 'TOOL_UNAUTHORIZED', message: 'm', round: 1 } as const;

test.each([
  ['consent', undefined, 'Decide: countersign approve nightly t1.c0 --as '],
  [
    'a lost answer',
    outcomePause(),
    'Say what became of it: countersign resolve nightly t1.c0 retry|succeeded|failed --as ',
  ],
  [
    'a form',
    { kind: 'input', round: 1, requests: {} },
    'Answer the server: countersign answer nightly t1.c0 --set FIELD=VALUE|--accept|--decline --as ',
  ],
  [
    'scopes',
    { ...asked, wants: 'consent', scopes: ['admin$(id)'] },
    'Give what it wants: countersign authorize nightly t1.c0 --scope SCOPE|--decline REASON --as ',
  ],
  [
    'another try',
    { ...asked, wants: 'consent' },
    'Give what it wants: countersign authorize nightly t1.c0 --again|--decline REASON --as ',
  ],
  [
    'a fresh grant',
    { ...asked, wants: 'grant', scopes: ['admin'] },
    'Give what it wants: countersign authorize nightly t1.c0 --ref REF|--grant-file FILE|--decline REASON --as ',
  ],
] as const satisfies readonly (readonly [string, Pause | undefined, string])[])(
  '%s is answered by its own command, with the digest of what was shown and no word of the server (INV-G2)',
  (_, about, next) => {
    const line = nextOf(about);
    expect(line).toContain(next);
    expect(line).toMatch(/ --digest [0-9a-f]{64}$/);
  },
);

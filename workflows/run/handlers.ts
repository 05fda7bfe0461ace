/** Updates and signals of a run; answers to requests are in `answers.ts`, which has the rules for both. */
import { defineSignal, patched, setHandler, workflowInfo } from '@temporalio/workflow';
import { SIGNALS, UPDATES } from '../../contracts/names.ts';
import type { Forget, ForgetAck } from '../../contracts/schemas/request.ts';
import type { Advance } from '../../contracts/schemas/run-state.ts';
import { admitForget, callsApprovedBy, forget } from '../../domain/request/standing.ts';
import { admitSaid, heard, otherThanHeard } from '../../domain/run/message-queue.ts';
import { parseForget, parseSay, parseStop } from '../../domain/shapes/inputs.ts';
import { onNudge, onUpdate, parsed, refuseWith, serveEntity } from '../entity/entity.ts';
import { serveElicitation } from '../legacy-2025/open-question.ts';
import { closed, serveAnswers } from './answers.ts';
import type { LiveRun } from './live-run.ts';
import { serveQueries } from './visibility.ts';
import { assertRefreshable, assertSigned, opened, refreshTrust } from './trust.ts';

/** One function, because it is the list of the messages that a run takes. */
export function registerHandlers(live: LiveRun): void {
  serveEntity(live);
  serveQueries(live);
  serveElicitation(live);
  serveAnswers(live);

  onUpdate(live, UPDATES.say, {
    description: 'Add a user message; it is read after the current turn',
    read: (input) => parsed(opened(live, input, parseSay), 'MESSAGE_INVALID'),
    check: (said, input) => {
      if (live.closing) throw closed();
      assertSigned(live, 'say', input, said, { person: said.from, jti: said.messageId });
      // No model step follows, so the message would never be read.
      if (live.work.consideredCancelled) throw closed();
      refuseWith(admitSaid(live.run, said));
    },
    act: (said) => {
      refuseWith(otherThanHeard(live.run, said));
      live.commit(heard(live.run, said));
      return advance(live);
    },
  });

  onUpdate(live, UPDATES.stop, {
    description: 'End the run: open requests are cancelled',
    read: (input) => parsed(opened(live, input, parseStop), 'MESSAGE_INVALID'),
    check: (stop, input) => {
      if (live.closing) throw closed();
      assertSigned(live, 'stop', input, stop, { person: stop.by });
    },
    act: (stop) => {
      live.stop(stop);
      return advance(live);
    },
  });

  onUpdate(live, UPDATES.forget, {
    description: 'Take a standing decision back: what it would answer is asked',
    read: (input) => parsed(opened(live, input, parseForget), 'DECISION_INVALID'),
    check: (message, input) => {
      if (live.closing) throw closed();
      assertSigned(live, 'forget', input, message, { person: message.by.id, groups: message.by.groups });
      refuseWith(admitForget(live.run, message));
    },
    act: (message) => forgetStanding(live, message),
  });

  setHandler(defineSignal(SIGNALS.present), (until?: unknown) => live.notePresence(until), {
    description: 'The client of an approved call is there, until this time',
  });

  onNudge(live, UPDATES.advance, {
    description: 'Where the run is, at once',
    act: () => advance(live),
  });
  onNudge(live, UPDATES.refreshTrust, {
    description: 'Read the trusted keys anew',
    check: () => assertRefreshable(live),
    act: () => {
      refreshTrust(live);
      return advance(live);
    },
  });
}

function advance(live: LiveRun): Advance {
  return { runId: workflowInfo().runId, cursor: live.journal.ledgerLength, status: live.status };
}

function forgetStanding(live: LiveRun, message: Forget): ForgetAck {
  const admission = admitForget(live.run, message);
  if (admission.kind === 'repeat') return admission.ack;
  refuseWith(admission);
  const { standing } = admission;
  const isAnew = callsApprovedBy(live.run, standing).length > 0 && patched('as-documented');
  const { ack, ...change } = forget(live.run, standing, message, live.ids, Date.now(), isAnew);
  live.commit(change);
  return ack;
}

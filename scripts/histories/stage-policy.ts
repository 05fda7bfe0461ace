/** Says who decides what in recorded runs. */
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { APPROVER } from './attempts.ts';

const ask = { action: 'ask' as const, approvers: { ids: [APPROVER.id], groups: APPROVER.groups } };

/** Two of three people must approve, and the initiator (ben) does not count. */
const ofTwo = {
  action: 'ask' as const,
  approvers: { ids: [APPROVER.id, 'ben', 'zoe'], need: 2, notInitiator: true as const },
};

export const POLICY: ConfigInput['policy'] = {
  servers: {
    notes: {
      default: 'allow',
      tools: {
        write_note: ask,
        seal_note: ofTwo,
        send_note: { ...ask, deadlineSeconds: 1 },
        post_note: { ...ask, deadlineSeconds: 600, extendableToSeconds: 3_600 },
        stamp_note: { ...ask, validForSeconds: 1 },
        file_note: {
          ...ask,
          approvers: {
            ids: [APPROVER.id, 'eve'],
            need: 2,
            escalate: { afterSeconds: 20, replace: { ids: ['zoe'], groups: ['heads'] } },
          },
          remindAfterSeconds: 1,
        },
        delete_note: 'deny',
      },
    },
  },
};

export const EDITABLE: ConfigInput['policy'] = {
  approvers: { ids: [APPROVER.id, 'zoe'], may: ['edit', 'respond'], remember: ['call', 'arguments'] },
  servers: {
    notes: {
      default: 'ask',
      tools: { seal_note: { action: 'ask', approvers: { ids: [APPROVER.id, 'zoe'], need: 2, may: ['edit'] } } },
    },
  },
};

/** Two people must consent to wider tokens; the calls themselves wait for nobody. */
export const OF_TWO: ConfigInput['policy'] = {
  approvers: { ids: [APPROVER.id, 'zoe'], need: 2 },
  servers: { notes: { default: 'allow' } },
};

/** Policy of the split deployment: the people who may decide have changed since the run asked. */
export const STRICTER: ConfigInput['policy'] = {
  servers: { notes: { tools: { write_note: { action: 'ask', approvers: { ids: ['zoe'] } } } } },
};

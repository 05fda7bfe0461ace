/** The search attributes by which runs and catalogs are found; docs/operations says what each holds. */
import { defineSearchAttributeKey } from '@temporalio/common';

export const KEYS = {
  status: defineSearchAttributeKey('CountersignStatus', 'KEYWORD'),
  pending: defineSearchAttributeKey('CountersignPending', 'INT'),
  nextDeadline: defineSearchAttributeKey('CountersignNextDeadline', 'DATETIME'),
  waitingSince: defineSearchAttributeKey('CountersignWaitingSince', 'DATETIME'),
  approverGroups: defineSearchAttributeKey('CountersignApproverGroups', 'KEYWORD_LIST'),
  tools: defineSearchAttributeKey('CountersignTools', 'KEYWORD_LIST'),
  servers: defineSearchAttributeKey('CountersignServers', 'KEYWORD_LIST'),
  initiator: defineSearchAttributeKey('CountersignInitiator', 'KEYWORD'),
  tenant: defineSearchAttributeKey('CountersignTenant', 'KEYWORD'),
  root: defineSearchAttributeKey('CountersignRoot', 'KEYWORD'),
};

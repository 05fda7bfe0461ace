/**
 * Approver rules say who may decide a request, and when enough people have.
 *
 * 1. A clause that names nobody at any time is met by nobody, and so is its rule (INV-G4).
 * 2. Clauses count people, not votes: nobody counts twice for a clause.
 * 3. A vote counts by the time at which it was given, not by what a timer has done, and goes on counting.
 * 4. People are told apart by `personOf`, everywhere: in lists, in four eyes, and where agreement is counted.
 * 5. Other questions than consent, if nobody was asked for consent, go to those whom `policy.approvers` names in each
 *    layer, or else to the initiator.
 */
import { defined } from '../../contracts/defined.ts';
import type { Approver } from '../../contracts/schemas/request.ts';
import type {
  ApproverClause,
  ApproverRule,
  DecisionRight,
  OrganisationPolicy,
  PolicyInput,
  RememberScope,
} from '../../contracts/schemas/policy.ts';
import type { PreparedRun } from '../../contracts/wire/run.ts';

/** 24 hours, see docs/adr/0010. It stands apart from the judge, which no workflow needs in its bundle. */
export const DEFAULT_DEADLINE_SECONDS = 86_400;

export interface Voter extends Approver {
  /** Milliseconds since the request opened; absent means at its opening. */
  readonly after?: number;
}

type People = Pick<ApproverClause, 'ids' | 'groups'>;

export type Compared = Pick<OrganisationPolicy, 'idCase'>;

/** Returns the form of an id in which people are compared. Ids are in Unicode's normal form anyway (`Identifier`). */
export function personOf({ idCase }: Compared, id: string): string {
  // Ids are ASCII: the result depends on no locale and no version of Unicode, so replays agree.
  return idCase === 'ignored' ? id.toLowerCase() : id;
}

export function isSamePerson(compared: Compared, one: string, other: string): boolean {
  return personOf(compared, one) === personOf(compared, other);
}

export function isNamedIn(compared: Compared, { ids, groups }: People, person: Approver): boolean {
  return (
    ids.some((id) => isSamePerson(compared, id, person.id)) || groups.some((group) => person.groups.includes(group))
  );
}

/**
 * True if the person may decide at all. Someone who counts for one clause may, if people may meet the clauses together.
 * Else one person must count for all of them (INV-G4): policy makes no such rule, and a forged one opens nothing.
 */
export function mayDecide(rule: ApproverRule, voter: Voter): boolean {
  if (!canBeMet(rule)) return false;
  const isNamed = (clause: ApproverClause): boolean => counts(rule, clause, voter);
  return rule.together === true ? rule.allOf.some(isNamed) : rule.allOf.every(isNamed);
}

export function isMet(rule: ApproverRule, voters: readonly Voter[]): boolean {
  return canBeMet(rule) && rule.allOf.every((clause) => missing(rule, clause, voters) === 0);
}

/** True if the voter would bring the rule nearer to being met. */
export function isWanted(rule: ApproverRule, voters: readonly Voter[], voter: Voter): boolean {
  return rule.allOf.some((clause) => missing(rule, clause, voters) > missing(rule, clause, [...voters, voter]));
}

export function stillNeeded(rule: ApproverRule, voters: readonly Voter[]): number {
  return Math.max(0, ...rule.allOf.map((clause) => missing(rule, clause, voters)));
}

/** True if the rule escalates, so that time decides who may vote. */
export function isStaged({ allOf }: ApproverRule): boolean {
  return allOf.some(({ escalate }) => escalate !== undefined);
}

export function peopleEver({ allOf }: ApproverRule): readonly People[] {
  return allOf.flatMap(stagesOf);
}

export function groupsOf(rule: ApproverRule): string[] {
  return peopleEver(rule).flatMap(({ groups }) => groups);
}

/** The rule at a time after the opening: its approvers by then, and the escalations still to come. @param after ms */
export function ruleAt(rule: ApproverRule, after: number): ApproverRule {
  const allOf = rule.allOf.map((clause) => {
    const { escalate, ...rest } = clause;
    return isLater(escalate, after) ? { ...rest, ...peopleAt(clause, after) } : clause;
  });
  return { ...rule, allOf };
}

function isLater(escalate: ApproverClause['escalate'], after: number): escalate is NonNullable<typeof escalate> {
  return escalate !== undefined && after >= escalate.afterSeconds * 1_000;
}

function peopleAt({ ids, groups, escalate }: ApproverClause, after: number): People {
  if (!isLater(escalate, after)) return { ids, groups };
  if ('replace' in escalate) return escalate.replace;
  return { ids: [...ids, ...escalate.add.ids], groups: [...groups, ...escalate.add.groups] };
}

function stagesOf(clause: ApproverClause): readonly People[] {
  return [peopleAt(clause, 0), ...(clause.escalate === undefined ? [] : [peopleAt(clause, Number.POSITIVE_INFINITY)])];
}

function canBeMet({ allOf }: ApproverRule): boolean {
  return (
    allOf.length > 0 &&
    allOf.every((clause) => stagesOf(clause).some(({ ids, groups }) => ids.length + groups.length > 0))
  );
}

function missing(rule: ApproverRule, clause: ApproverClause, voters: readonly Voter[]): number {
  const people = new Set(voters.filter((voter) => counts(rule, clause, voter)).map(({ id }) => personOf(rule, id)));
  return Math.max(0, (clause.need ?? 1) - people.size);
}

function counts(rule: ApproverRule, clause: ApproverClause, voter: Voter): boolean {
  if (clause.not?.some((id) => isSamePerson(rule, id, voter.id)) === true) return false;
  return isNamedIn(rule, peopleAt(clause, voter.after ?? 0), voter);
}

/** Says who may decide as a person would: `2 people: ann, ben or anybody in finance (but not zoe)`. */
export function inWords(rule: ApproverRule): string {
  return rule.allOf.map(clauseInWords).join(', and also ');
}

const RIGHTS: Readonly<Record<DecisionRight, string>> = {
  edit: 'may change the arguments',
  respond: "may answer in the tool's place",
};
const EXTENTS: Readonly<Record<RememberScope, string>> = {
  call: 'the same call',
  arguments: 'calls with the same of some arguments',
  tool: 'any call of the tool',
};

function clauseInWords({ need, not = [], may = [], remember = [], escalate, ...people }: ApproverClause): string {
  const details = [
    ...(not.length === 0 ? [] : [`but not ${either(not)}`]),
    ...(escalate === undefined ? [] : [laterBy(escalate, peopleInWords)]),
    ...may.map((right) => RIGHTS[right]),
    ...(remember.length === 0
      ? []
      : [`may approve later calls, too: ${either(remember.map((scope) => EXTENTS[scope]))}`]),
  ];
  const who = `${need === undefined ? '' : `${need} people: `}${peopleInWords(people)}`;
  return details.length === 0 ? who : `${who} (${details.join('; ')})`;
}

function laterBy(escalate: NonNullable<ApproverClause['escalate']>, said: (people: People) => string): string {
  const [how, later] = 'add' in escalate ? ['also', escalate.add] : ['only', escalate.replace];
  return `after ${describeSeconds(escalate.afterSeconds)} ${how} ${said(later)}`;
}

function peopleInWords({ ids, groups }: People): string {
  return either([...ids, ...groups.map((group) => `anybody in ${group}`)]);
}

function either(words: readonly string[]): string {
  const [last = 'nobody', ...before] = words.toReversed();
  return before.length === 0 ? last : `${before.toReversed().join(', ')} or ${last}`;
}

/** Describes a rule in short: `2 of ann, group:ops, not ben, may edit`. */
export function describeRule(rule: ApproverRule): string {
  return rule.allOf.map(describeClause).join(' and ');
}

function describeClause({ ids, groups, need, not = [], may = [], remember = [], escalate }: ApproverClause): string {
  return [
    `${need === undefined ? '' : `${need} of `}${describePeople({ ids, groups })}`,
    ...(not.length === 0 ? [] : [`not ${not.join(' or ')}`]),
    ...(may.length === 0 ? [] : [`may ${may.join(' and ')}`]),
    ...(remember.length === 0 ? [] : [`may remember ${remember.join(' or ')}`]),
    ...(escalate === undefined ? [] : [laterBy(escalate, describePeople)]),
  ].join(', ');
}

function describePeople({ ids, groups }: People): string {
  return [...ids, ...groups.map((group) => `group:${group}`)].join(' or ') || 'nobody';
}

const UNITS = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
] as const;

/** Stays exact, in the largest unit that divides: `90 min`, not `1.5 h`. */
function describeSeconds(seconds: number): string {
  const [size, unit] = UNITS.find(([each]) => seconds % each === 0) ?? [1, 's'];
  return `${seconds / size} ${unit}`;
}

/** Requests for something other than consent have these approvers. */
export type Answerers = NonNullable<PreparedRun['answerers']>;

export function answerersOf(
  { organisation, run }: { readonly organisation: PolicyInput & Compared; readonly run?: PolicyInput | undefined },
  initiatorId: string,
): Answerers {
  const lists = [['organisation', organisation.approvers] as const, ['run', run?.approvers] as const];
  const clauses = lists.flatMap(([layer, list]) => (list === undefined ? [] : [clauseOf(layer, list, initiatorId)]));
  return {
    approvers: { ...approverRule(clauses, initiatorId), ...comparing(organisation) },
    deadlineSeconds: Math.min(
      organisation.deadlineSeconds ?? DEFAULT_DEADLINE_SECONDS,
      run?.deadlineSeconds ?? Number.POSITIVE_INFINITY,
    ),
  };
}

type Stated = NonNullable<PolicyInput['approvers']>;

export function clauseOf(layer: ApproverClause['layer'], list: Stated, initiatorId: string): ApproverClause {
  const { ids = [], groups = [], need, notInitiator, may, remember, escalate } = list;
  const rights = defined({ may, remember });
  // `onlyInitiator` overrides everything else in the list.
  if (list.onlyInitiator === true) return { layer, ids: [initiatorId], groups: [], ...rights };
  return {
    layer,
    ids,
    groups,
    ...defined({ need }),
    ...(notInitiator === true ? { not: [initiatorId] } : {}),
    ...rights,
    ...(escalate === undefined ? {} : { escalate: laterOf(escalate) }),
  };
}

export function comparing({ idCase }: Compared): Pick<ApproverRule, 'idCase'> {
  return idCase === 'ignored' ? { idCase } : {};
}

/** Returns the rule of all lists together. If nobody is named anywhere, who started the run decides. */
export function approverRule(clauses: ApproverClause[], initiatorId: string): Pick<ApproverRule, 'allOf' | 'together'> {
  if (clauses.length === 0) return initiatorRule(initiatorId);
  return { allOf: clauses, ...(clauses.length > 1 ? { together: true as const } : {}) };
}

export function answerersByDefault(initiatorId: string): Answerers {
  return { approvers: initiatorRule(initiatorId), deadlineSeconds: DEFAULT_DEADLINE_SECONDS };
}

export function initiatorRule(initiatorId: string): ApproverRule {
  return { allOf: [{ layer: 'default', ids: [initiatorId], groups: [] }] };
}

/** A run's own policy may lack the defaults. */
function laterOf(stated: NonNullable<Stated['escalate']>): NonNullable<ApproverClause['escalate']> {
  const { afterSeconds } = stated;
  const { ids = [], groups = [] } = 'add' in stated ? stated.add : stated.replace;
  return 'add' in stated ? { afterSeconds, add: { ids, groups } } : { afterSeconds, replace: { ids, groups } };
}

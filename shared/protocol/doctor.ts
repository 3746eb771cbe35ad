/** What `GET /v1/doctor` answers. */
import { z } from 'zod'

export const SEVERITIES = ['ok', 'note', 'warning', 'problem'] as const
export type Severity = (typeof SEVERITIES)[number]

export const findingSchema = z.object({
  part: z.string().describe('what was looked at: postgres, a region, its redis, a pair of regions'),
  check: z.string(),
  severity: z.enum(SEVERITIES),
  message: z.string(),
  fix: z.string().optional().describe('what to do'),
})
export type DoctorFinding = z.infer<typeof findingSchema>

export const doctorReplySchema = z
  .object({
    at: z.iso.datetime(),
    version: z.string().describe('of admin'),
    findings: z.array(findingSchema),
    enforcers: z
      .array(z.object({ region: z.string(), name: z.string().describe('host and port') }))
      .default([])
      .describe('enforcers that are alive, for whoever wants to look at each'),
  })
  .meta({ id: 'Diagnosis' })
export type DoctorReply = z.infer<typeof doctorReplySchema>

DROP TABLE styx_duties;
